from django.urls import path

from webapp.rest.deployments import deployments, plans, workers

urlpatterns = [
    path("workers/register", workers.Register.as_view(), name="api-worker-register"),
    path("workers/heartbeat", workers.WorkerHeartbeat.as_view(), name="api-worker-heartbeat"),
    path("deployments", deployments.Deployments.as_view(), name="api-deployments"),
    path("deployments/plan", plans.Plans.as_view(), name="api-deployment-plan"),
    path("deployments/<str:deployment_id>", deployments.DeploymentDetail.as_view(), name="api-deployment"),
    path("deployments/<str:deployment_id>/retry", deployments.Retry.as_view(), name="api-deployment-retry"),
    path("deployments/<str:deployment_id>/promote", deployments.Promote.as_view(), name="api-promote"),
    path("deployments/<str:deployment_id>/rollback", deployments.RollBack.as_view(), name="api-rollback"),
]
