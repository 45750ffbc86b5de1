from django.db import models
from django.db.models import Q

from platform_core.evaluations.states import SETTLED, EvaluationState
from platform_core.registry.stages import Stage

STATES = ("registering", "ready", "failed", "external")
STAGES = tuple(stage.value for stage in Stage)


class Model(models.Model):
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.CharField(max_length=250)
    description = models.TextField(blank=True)
    tags = models.JSONField(default=dict, help_text="name → value, both text")
    gate = models.JSONField(
        default=dict,
        help_text="what its versions must have proven; empty: nothing (platform_core.registry.gates)",
    )
    created_ms = models.BigIntegerField()
    changed_ms = models.BigIntegerField(default=0, help_text="when it or one of its versions was last edited")
    deleted_ms = models.BigIntegerField(
        null=True, help_text="its versions stay for the deployments that used them"
    )

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "name"], condition=Q(deleted_ms=None), name="one_living_model_a_name"
            )
        ]

    def __str__(self) -> str:
        return f"{self.team_id}/{self.name}"


class ModelVersion(models.Model):
    id = models.CharField(primary_key=True, max_length=40)
    model = models.ForeignKey(Model, models.CASCADE, related_name="versions")
    version = models.PositiveIntegerField()
    state = models.CharField(
        max_length=12,
        choices=[(state, state) for state in STATES],
        default="registering",
        help_text="external: registered by MLflow from a place that the platform does not read",
    )
    stage = models.CharField(
        max_length=12, choices=[(stage, stage) for stage in STAGES], default=Stage.CANDIDATE.value
    )
    error = models.TextField(blank=True)
    manifest = models.ForeignKey("artifacts.Manifest", models.PROTECT, null=True)
    source = models.TextField(help_text="checkpoint id or URL")
    location = models.TextField(
        blank=True, help_text="where MLflow clients download its files, when it came from one"
    )
    description = models.TextField(blank=True)
    tags = models.JSONField(default=dict, help_text="name → value, both text")
    job = models.ForeignKey("jobs.Job", models.SET_NULL, null=True, help_text="the job it came from")
    run = models.ForeignKey(
        "experiments.Run", models.SET_NULL, null=True, related_name="+", help_text="the run it came from"
    )
    run_link = models.TextField(blank=True, help_text="the run it came from, on another server")
    logged_model = models.CharField(
        max_length=40, blank=True, help_text="id of the logged model it came from"
    )
    metrics = models.JSONField(default=dict)
    validation = models.JSONField(
        default=dict, help_text="problem, tensors, job and time of its self-validation; empty: not tried"
    )
    exports = models.JSONField(
        default=dict,
        help_text="report of its `export.json`, problem and time of the reading; empty: it has none",
    )
    licence = models.CharField(
        max_length=120, default="", help_text="under which it may be used, such as MIT"
    )
    card = models.TextField(
        default="", help_text="Markdown that people add to its card: intended use, limits, ethics"
    )
    signature = models.JSONField(
        default=dict,
        help_text="as people gave it; empty: that of its exports (platform_core.registry.signatures)",
    )
    created_ms = models.BigIntegerField()
    created_by = models.ForeignKey("accounts.User", models.PROTECT)
    changed_ms = models.BigIntegerField(default=0)
    deleted_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["model", "version"], name="one_version_a_number")]

    def __str__(self) -> str:
        return f"{self.model.name} v{self.version}"


class ServingTarget(models.Model):
    """What a team's serving asks of an export: latency, memory, opset, dtype, formats."""

    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.CharField(max_length=60)
    constraints = models.JSONField(default=dict, help_text="platform_core.registry.export_report.constraints")
    changed_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_serving_target_a_name")]

    def __str__(self) -> str:
        return f"{self.team_id}/{self.name}"


class ExportMeasurement(models.Model):
    """The exports of a version as a job measured them on the slots of a serving target; the newest one counts."""

    version = models.ForeignKey(ModelVersion, models.CASCADE, related_name="measurements")
    target = models.CharField(max_length=60, help_text="name of the serving target of the team")
    gpu_type = models.CharField(max_length=60, help_text="of the slots where its job runs")
    number = models.PositiveIntegerField(help_text="of this version and target: 2 is the first repetition")
    state = models.CharField(
        max_length=8, choices=[(state.value, state.value) for state in EvaluationState],
        default=EvaluationState.WAITING,
    )  # fmt: skip
    reason = models.TextField(blank=True, help_text="why it failed, or is not submitted yet")
    job = models.ForeignKey("jobs.Job", models.SET_NULL, null=True, related_name="+")
    report = models.JSONField(null=True, help_text="as of export.json, but measured by the job")
    asked_by = models.ForeignKey(
        "accounts.User", models.PROTECT, help_text="its job is submitted as this person"
    )
    asked_ms = models.BigIntegerField()
    ended_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["version", "target", "number"], name="one_export_measurement_a_number"
            ),
            models.UniqueConstraint(
                fields=["version", "target"], name="one_export_measurement_at_a_time",
                condition=~models.Q(state__in=sorted(SETTLED)),
            ),
        ]  # fmt: skip
        indexes = [models.Index(fields=["state"], name="export_measurements_by_state")]


class ModelAlias(models.Model):
    """A name for one version of a model that can be moved to another: champion, candidate."""

    model = models.ForeignKey(Model, models.CASCADE, related_name="aliases")
    name = models.CharField(max_length=255)
    version = models.ForeignKey(ModelVersion, models.CASCADE, related_name="aliases")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["model", "name"], name="one_version_an_alias")]


class Evaluation(models.Model):
    """The newest results of one suite for a version: those that the server measured, or those that a person sent."""

    version = models.ForeignKey(ModelVersion, models.CASCADE, related_name="evaluations")
    suite = models.CharField(max_length=250)
    metrics = models.JSONField(help_text="metric → mean, low, high (95 %), samples; null: no finite number")
    slices = models.JSONField(default=dict, help_text="slice → metric → the same")
    samples = models.BinaryField(
        help_text="id and metrics of each, JSON compressed with zstd, to compare in pairs"
    )
    compared = models.JSONField(
        default=dict,
        help_text="the last comparison with production: its pair, and metric → mean, low, high, pairs",
    )
    sample_count = models.PositiveIntegerField()
    evaluated_ms = models.BigIntegerField()
    evaluated_by = models.ForeignKey("accounts.User", models.PROTECT, related_name="+")
    by_server = models.BooleanField(default=False, help_text="measured in a job that the platform started")
    job = models.ForeignKey("jobs.Job", models.SET_NULL, null=True, related_name="+")
    suite_version = models.PositiveIntegerField(null=True)
    contamination = models.JSONField(
        default=dict, help_text="its data in the training data (platform_core.evaluations.contamination)"
    )
    digest = models.CharField(max_length=64, default="", help_text="SHA-256 of the results")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["version", "suite", "by_server"], name="one_evaluation_a_suite")
        ]
        ordering = ("suite", "by_server")  # what the server measured takes the place of what people sent


class Approval(models.Model):
    version = models.ForeignKey(ModelVersion, models.CASCADE, related_name="approvals")
    user = models.ForeignKey("accounts.User", models.CASCADE, related_name="+")
    role = models.CharField(max_length=12, help_text="in the team, when it was given")
    approved_ms = models.BigIntegerField()
    evidence = models.CharField(max_length=64, default="", help_text="digest of the results it was given for")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["version", "user"], name="one_approval_a_person")]
        ordering = ("approved_ms", "id")
