from django.urls import path

from webapp.pages.overview import views
from webapp.rest.prometheus import Metrics

app_name = "monitoring"
urlpatterns = [
    path("", views.overview, name="overview"),
    path("audit/", views.audit, name="audit"),
    path("metrics", Metrics.as_view(), name="metrics"),
    path("report/", views.report, name="report"),
    path("search/", views.search, name="search"),
]
