from django.urls import path

from webapp.experiments import views

app_name = "experiments"
urlpatterns = [
    path("experiments/", views.experiment_list, name="list"),
    path("experiments/compare/", views.compare, name="compare"),
    path("experiments/<int:experiment_id>/", views.detail, name="detail"),
]
