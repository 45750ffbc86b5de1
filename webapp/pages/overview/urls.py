from django.urls import path

from webapp.pages.overview import views

app_name = "overview"
urlpatterns = [
    path("", views.overview, name="overview"),
    path("audit/", views.audit, name="audit"),
    path("search/", views.search, name="search"),
]
