"""What the OpenAPI document says of itself, and the names of the sets of values in it."""

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
            "DistributionStrategy", "RateBasis", "DryRunOutcome", "TeamRole", "SweepState", "TrialState", "UploadKind",
            "RunState", "RunView", "RunEnd", "RunSource", "RunAction", "EndReason", "RestartBudget", "FindingStage",
            "FindingSeverity", "FindingConsequence", "HangStage", "StackActivity",
            "EndpointState", "ReplicaState", "ModelVersionStage", "ReproductionSubject", "MetricAgreement",
            "AlertSeverity", "ChannelKind", "SnapshotState", "AccessDecision", "MetricDirection", "MetricGoal",
            "ResultsMeasurer", "ResultsSource", "EvaluationState", "RetrainingState", "RetrainingTrigger",
            "LineageKind", "LeftoverKind", "LimitedKind", "ProfileKind", "ExportFormat", "ExportDtype",
        )
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums", "webapp.rest.openapi.add_specs",
    ],
}  # fmt: skip

REST = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "webapp.rest.authentication.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["webapp.rest.bodies.JsonParser"],
    "DEFAULT_SCHEMA_CLASS": "webapp.rest.openapi.Schema",
    "EXCEPTION_HANDLER": "webapp.base.problems.rest_exception_handler",
}
