from django.urls import path

from webapp.rest import checkpoints as api

urlpatterns = [
    path("training-jobs/<str:job_id>/checkpoints", api.Checkpoints.as_view(), name="api-checkpoints")
]
