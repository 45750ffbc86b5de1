"""The addresses of the REST API, below /api/v1/."""

from django.urls import path

from webapp.rest import (
    accounts,
    artifacts,
    checkpoints,
    datasets,
    experiments,
    jobs,
    nodes,
    queue,
    quotas,
    registry,
    run_files,
)
from webapp.rest.deployments import deployments, plans, workers

urlpatterns = [
    path("me", accounts.MeView.as_view(), name="api-me"),
    path("teams", accounts.Teams.as_view(), name="api-teams"),
    path("teams/<str:slug>", accounts.OneTeam.as_view(), name="api-team"),
    path("teams/<str:slug>/members", accounts.Members.as_view(), name="api-members"),
    path("teams/<str:slug>/members/<str:username>", accounts.OneMember.as_view(), name="api-member"),
    path("departments", accounts.Departments.as_view(), name="api-departments"),
    path("departments/<str:slug>", accounts.OneDepartment.as_view(), name="api-department"),
    path("teams/<str:slug>/quotas", quotas.Quotas.as_view(), name="api-quotas"),
    path("teams/<str:slug>/quotas/<str:gpu_type>", quotas.OneQuota.as_view(), name="api-quota"),
    path("nodes", nodes.Nodes.as_view(), name="api-nodes"),
    path("maintenance-windows", nodes.Windows.as_view(), name="api-windows"),
    path("maintenance-windows/<int:window_id>", nodes.OneWindow.as_view(), name="api-window"),
    path("nodes/<str:node_id>/notice", nodes.Notice.as_view(), name="api-notice"),
    path("nodes/<str:node_id>/drain", nodes.Drain.as_view(), name="api-node-drain"),
    path("nodes/<str:node_id>/resume", nodes.Resume.as_view(), name="api-node-resume"),
    path("nodes/<str:node_id>", nodes.OneNode.as_view(), name="api-node"),
    path("uploads", artifacts.Uploads.as_view(), name="api-uploads"),
    path("uploads/<str:upload_id>/files/<path:path>", artifacts.UploadFile.as_view(), name="api-upload-file"),
    path(
        "uploads/<str:upload_id>/complete", artifacts.UploadCompletion.as_view(), name="api-upload-complete"
    ),
    path("datasets", datasets.Datasets.as_view(), name="api-datasets"),
    path("datasets/<str:name>/snapshots", datasets.Snapshots.as_view(), name="api-snapshots"),
    path("training-jobs", jobs.Jobs.as_view(), name="api-jobs"),
    path("training-jobs/resolve", jobs.JobByReference.as_view(), name="api-job-resolve"),
    path("training-jobs/dry-run", jobs.JobDryRun.as_view(), name="api-job-dry-run"),
    path("training-jobs/<str:job_id>", jobs.JobDetail.as_view(), name="api-job"),
    path("training-jobs/<str:job_id>/cancel", jobs.JobCancel.as_view(), name="api-job-cancel"),
    path("training-jobs/<str:job_id>/lost", jobs.JobLost.as_view(), name="api-job-lost"),
    path("training-jobs/<str:job_id>/logs", jobs.JobLogs.as_view(), name="api-job-logs"),
    path("training-jobs/<str:job_id>/events", jobs.JobEvents.as_view(), name="api-job-events"),
    path("training-jobs/<str:job_id>/checkpoints", checkpoints.Checkpoints.as_view(), name="api-checkpoints"),
    path("training-jobs/<str:job_id>/metrics", experiments.Metrics.as_view(), name="api-metrics"),
    path("experiments", experiments.Experiments.as_view(), name="api-experiments"),
    path("experiments/compare", experiments.Comparison.as_view(), name="api-compare"),
    path("runs/<str:run_id>/files", run_files.RunFiles.as_view(), name="api-run-files"),
    path("runs/<str:run_id>/files/<path:path>", run_files.RunFile.as_view(), name="api-run-file"),
    path("runs/<str:run_id>/uploads", run_files.RunFileUploads.as_view(), name="api-run-uploads"),
    path(
        "runs/<str:run_id>/uploads/<str:upload_id>", run_files.RunFileUpload.as_view(), name="api-run-upload"
    ),
    path(
        "runs/<str:run_id>/uploads/<str:upload_id>/parts/<int:number>",
        run_files.RunFilePart.as_view(),
        name="api-run-upload-part",
    ),
    path("queue", queue.Queue.as_view(), name="api-queue"),
    path("models", registry.Models.as_view(), name="api-models"),
    path("models/<str:name>/versions", registry.Versions.as_view(), name="api-model-versions"),
    path("model-versions/<str:version_id>", registry.VersionDetail.as_view(), name="api-model-version"),
    path("workers/register", workers.Register.as_view(), name="api-worker-register"),
    path("workers/heartbeat", workers.WorkerHeartbeat.as_view(), name="api-worker-heartbeat"),
    path("deployments", deployments.Deployments.as_view(), name="api-deployments"),
    path("deployments/plan", plans.Plans.as_view(), name="api-deployment-plan"),
    path("deployments/<str:deployment_id>", deployments.DeploymentDetail.as_view(), name="api-deployment"),
    path("deployments/<str:deployment_id>/retry", deployments.Retry.as_view(), name="api-deployment-retry"),
    path("deployments/<str:deployment_id>/promote", deployments.Promote.as_view(), name="api-promote"),
    path("deployments/<str:deployment_id>/rollback", deployments.RollBack.as_view(), name="api-rollback"),
]
