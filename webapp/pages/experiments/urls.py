from django.urls import path

from webapp.pages.experiments import artifacts, views

app_name = "experiments"
urlpatterns = [
    path("experiments/", views.experiment_list, name="list"),
    path("experiments/compare/", views.compare, name="compare"),
    path("experiments/curves/", views.curves, name="curves"),
    path("experiments/<int:experiment_id>/", views.detail, name="detail"),
    path("jobs/<str:job_id>/artifacts/<int:artifact_id>/<path:name>", artifacts.download, name="artifact"),
]
