from django.urls import path

from webapp.pages.report import views

app_name = "report"
urlpatterns = [path("report/", views.report, name="report")]
