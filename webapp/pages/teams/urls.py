from django.urls import path

from webapp.pages.teams import shares as shares_page
from webapp.pages.teams import views

app_name = "teams"
urlpatterns = [
    path("shares/", shares_page.shares, name="shares"),
    path("teams/<slug:slug>/quota/", views.edit, name="edit"),
    path("teams/<slug:slug>/use.json", views.use, name="use"),
]
