from django.urls import path

from webapp.pages.jobs import detail, hangs, profiles, views
from webapp.pages.jobs import submit as submitting

app_name = "jobs"
urlpatterns = [
    path("jobs/", views.job_list, name="list"),
    path("jobs/submit/", submitting.submit, name="submit"),
    path("jobs/check/", submitting.check, name="check"),
    path("jobs/code/", submitting.code, name="code"),
    path("jobs/<str:job_id>/", detail.detail, name="detail"),
    path("jobs/<str:job_id>/again/", views.run_again, name="again"),
    path("jobs/<str:job_id>/cancel/", views.cancel, name="cancel"),
    path("jobs/<str:job_id>/save/", views.save, name="save"),
    path("jobs/<str:job_id>/checkpoints/<str:checkpoint_id>/pin/", views.pin, name="pin"),
    path(
        "jobs/<str:job_id>/checkpoints/<str:checkpoint_id>/delete/",
        views.delete_checkpoint,
        name="delete-checkpoint",
    ),
    path("jobs/<str:job_id>/stacks/", hangs.stacks, name="stacks"),
    path("jobs/<str:job_id>/profile/", profiles.order, name="profile"),
    path("jobs/<str:job_id>/restart/", hangs.restart, name="restart"),
    path("jobs/<str:job_id>/lost/", views.lost, name="lost"),
    path("jobs/<str:job_id>/log/", views.log_lines, name="log"),
    path("jobs/<str:job_id>/log.txt", views.log_download, name="log-download"),
]
