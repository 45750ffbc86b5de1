from django.db import models
from django.db.models import Q

from platform_core.experiments.states import RunState


class Experiment(models.Model):
    """A named set of runs of one team."""

    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.CharField(max_length=500)
    description = models.TextField(blank=True, help_text="Markdown")
    tags = models.JSONField(default=dict, help_text="name → value, both text")
    created_ms = models.BigIntegerField()
    created_by = models.ForeignKey("accounts.User", models.SET_NULL, null=True, related_name="+")
    changed_ms = models.BigIntegerField(default=0, help_text="when the experiment itself was last edited")
    archived_ms = models.BigIntegerField(null=True)
    deleted_ms = models.BigIntegerField(null=True, help_text="retention removes it some days after this")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "name"], condition=Q(deleted_ms=None), name="one_living_experiment_a_name"
            )
        ]

    def __str__(self) -> str:
        return self.name


class Run(models.Model):
    """What went into one training or evaluation and what came out: of a job, or of a process outside the platform."""

    id = models.CharField(primary_key=True, max_length=40, help_text="the job's id, or 32 hexadecimal digits")
    job = models.OneToOneField("jobs.Job", models.CASCADE, null=True, related_name="run")
    experiment = models.ForeignKey(Experiment, models.PROTECT, related_name="runs")
    name = models.CharField(max_length=250)
    description = models.TextField(blank=True, help_text="Markdown")
    owner = models.ForeignKey("accounts.User", models.SET_NULL, null=True, related_name="+")
    state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in RunState])
    parent = models.ForeignKey("self", models.SET_NULL, null=True, related_name="children")
    group = models.CharField(
        max_length=250, blank=True, help_text="runs that are shown as one, such as seeds"
    )
    parameters = models.JSONField(default=dict)
    tags = models.JSONField(
        default=dict, help_text="name → value, both text; a tag of a job has the value ''"
    )
    lineage = models.JSONField(
        default=dict, help_text="code, git, dataset, packages, seed, command, hardware"
    )
    source = models.CharField(max_length=20, help_text="job, sdk, mlflow, tensorboard, wandb or api")
    summary = models.JSONField(default=dict, help_text="metric → its newest value, step and least value")
    ingested = models.BigIntegerField(default=0, help_text="batches of metric values kept so far")
    started_ms = models.BigIntegerField(null=True)
    ended_ms = models.BigIntegerField(null=True)
    reported_ms = models.BigIntegerField(null=True, help_text="when its process last reported anything")
    created_ms = models.BigIntegerField()
    changed_ms = models.BigIntegerField()
    archived_ms = models.BigIntegerField(null=True)
    deleted_ms = models.BigIntegerField(null=True, help_text="retention removes it some days after this")

    class Meta:
        indexes = [
            models.Index(fields=["experiment", "-created_ms", "-id"], name="newest_runs"),
            models.Index(
                fields=["created_ms"], name="living_runs_without_job", condition=Q(state="running", job=None)
            ),
            models.Index(fields=["deleted_ms"], name="deleted_runs", condition=Q(deleted_ms__isnull=False)),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.id})"

    @property
    def owner_name(self) -> str:
        """The username of the owner; "" for a run of a deleted account or of the platform."""
        return self.owner.username if self.owner else ""


class MetricPoint(models.Model):
    """One value of one metric at one step. A step repeated by a later attempt replaces the earlier one."""

    run = models.ForeignKey(Run, models.CASCADE)
    key = models.CharField(max_length=120)
    step = models.BigIntegerField()
    value = models.FloatField()
    at_ms = models.BigIntegerField()
    attempt = models.PositiveIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "key", "step"], name="one_point_a_step")]


class RunArtifact(models.Model):
    run = models.ForeignKey(Run, models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=200)
    manifest = models.ForeignKey("artifacts.Manifest", models.PROTECT)
    created_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="one_artifact_a_name")]
