"""What the OpenAPI document says of itself, and the names of the sets of values in it."""

from platform_core.jobs.spec import SCHEMA as JOB_SCHEMA
from platform_core.serving.spec import SCHEMA as ENDPOINT_SCHEMA
from platform_core.sweeps.spec import SCHEMA as SWEEP_SCHEMA

OPENAPI = {
    "TITLE": "Trainmaster",
    "DESCRIPTION": "Submit training jobs, watch them, compare runs and bring models to nodes.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "ENUM_NAME_OVERRIDES": {
        name: f"webapp.rest.enums.{name}"
        for name in (
            "JobState", "NodeState", "ModelVersionState", "DeploymentState", "RolloutState", "WorkerState",
            "DistributionStrategy", "DryRunOutcome", "TeamRole", "SweepState", "TrialState", "UploadKind",
            "RunState", "RunView", "RunEnd", "RunSource", "RunAction", "EndReason", "RestartBudget", "FindingStage",
            "FindingSeverity", "FindingConsequence", "HangStage", "StackActivity",
            "EndpointState", "ReplicaState", "ModelVersionStage", "ReproductionSubject", "MetricAgreement",
        )
    },
    "APPEND_COMPONENTS": {
        "schemas": {"JobSpec": JOB_SCHEMA, "SweepSpec": SWEEP_SCHEMA, "EndpointSpec": ENDPOINT_SCHEMA}
    },
}  # fmt: skip
