from django.urls import path

from webapp.rest import experiments as api

urlpatterns = [path("training-jobs/<str:job_id>/metrics", api.Metrics.as_view(), name="api-metrics")]
