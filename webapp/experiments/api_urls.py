from django.urls import path

from webapp.experiments import api

urlpatterns = [path("training-jobs/<str:job_id>/metrics", api.Metrics.as_view(), name="api-metrics")]
