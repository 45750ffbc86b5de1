from django.urls import path

from webapp.rest import jobs as api

urlpatterns = [
    path("training-jobs", api.Jobs.as_view(), name="api-jobs"),
    path("training-jobs/dry-run", api.JobDryRun.as_view(), name="api-job-dry-run"),
    path("training-jobs/<str:job_id>", api.JobDetail.as_view(), name="api-job"),
    path("training-jobs/<str:job_id>/cancel", api.JobCancel.as_view(), name="api-job-cancel"),
    path("training-jobs/<str:job_id>/lost", api.JobLost.as_view(), name="api-job-lost"),
    path("training-jobs/<str:job_id>/logs", api.JobLogs.as_view(), name="api-job-logs"),
    path("training-jobs/<str:job_id>/events", api.JobEvents.as_view(), name="api-job-events"),
]
