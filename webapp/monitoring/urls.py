from django.urls import path

from webapp.monitoring import views

app_name = "monitoring"
urlpatterns = [
    path("", views.overview, name="overview"),
    path("audit/", views.audit, name="audit"),
    path("report/", views.report, name="report"),
    path("search/", views.search, name="search"),
]
