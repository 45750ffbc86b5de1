from django.urls import path

from webapp.pages.sweeps import views

app_name = "sweeps"
urlpatterns = [
    path("sweeps/", views.sweep_list, name="list"),
    path("sweeps/<str:sweep_id>/", views.detail, name="detail"),
    path("sweeps/<str:sweep_id>/pause/", views.pause, name="pause"),
    path("sweeps/<str:sweep_id>/resume/", views.resume, name="resume"),
    path("sweeps/<str:sweep_id>/cancel/", views.cancel, name="cancel"),
    path("sweeps/<str:sweep_id>/budget/", views.budget, name="budget"),
]
