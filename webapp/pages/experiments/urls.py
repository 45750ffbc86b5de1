from django.urls import path

from webapp.pages.experiments import artifacts, experiment, verbs, views

app_name = "experiments"
urlpatterns = [
    path("experiments/", views.experiment_list, name="list"),
    path("experiments/compare/", views.compare, name="compare"),
    path("experiments/curves/", views.curves, name="curves"),
    path("experiments/new/", verbs.create, name="create"),
    path("experiments/<int:experiment_id>/", experiment.detail, name="detail"),
    path("experiments/<int:experiment_id>/names/", experiment.names, name="names"),
    path("experiments/<int:experiment_id>/edit/", verbs.edit, name="edit"),
    path("experiments/<int:experiment_id>/archive/", verbs.archive, name="archive"),
    path("experiments/<int:experiment_id>/restore/", verbs.restore, name="restore"),
    path("experiments/<int:experiment_id>/delete/", verbs.delete, name="delete"),
    path("experiments/<int:experiment_id>/views/", verbs.save_view, name="save-view"),
    path(
        "experiments/<int:experiment_id>/views/<int:view_id>/delete/", verbs.delete_view, name="delete-view"
    ),
    path("jobs/<str:job_id>/artifacts/<int:artifact_id>/<path:name>", artifacts.download, name="artifact"),
]
