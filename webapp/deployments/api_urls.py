from django.urls import path

from webapp.deployments import api, planning_api, rollout_api, worker_api

urlpatterns = [
    path("workers/register", worker_api.Register.as_view(), name="api-worker-register"),
    path("workers/heartbeat", worker_api.WorkerHeartbeat.as_view(), name="api-worker-heartbeat"),
    path("deployments", api.Deployments.as_view(), name="api-deployments"),
    path("deployments/plan", planning_api.Plans.as_view(), name="api-deployment-plan"),
    path("deployments/<str:deployment_id>", api.DeploymentDetail.as_view(), name="api-deployment"),
    path("deployments/<str:deployment_id>/retry", api.Retry.as_view(), name="api-deployment-retry"),
    path("deployments/<str:deployment_id>/promote", rollout_api.Promote.as_view(), name="api-promote"),
    path("deployments/<str:deployment_id>/rollback", rollout_api.RollBack.as_view(), name="api-rollback"),
]
