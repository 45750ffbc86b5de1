from django.urls import path

from webapp.quotas import views

app_name = "quotas"
urlpatterns = [
    path("teams/<slug:slug>/quota/", views.edit, name="edit"),
    path("teams/<slug:slug>/use.json", views.use, name="use"),
]
