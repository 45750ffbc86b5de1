from django.urls import path

from webapp.pages.planner import measured, views

app_name = "planner"
urlpatterns = [
    path("planner/", views.planner, name="planner"),
    path("planner/measured/", measured.measured, name="measured"),
]
