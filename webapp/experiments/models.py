from collections.abc import Mapping

from django.db import models
from django.db.models import Q
from django.utils.functional import cached_property

from platform_core.experiments.rich_values import Kind
from platform_core.experiments.states import RunState
from webapp.metrics import queries as metrics
from webapp.metrics.values import Summary


class Experiment(models.Model):
    """A named set of runs of one team."""

    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.CharField(max_length=500)
    description = models.TextField(blank=True, help_text="Markdown")
    tags = models.JSONField(default=dict, help_text="name → value, both text")
    artifact_folder = models.CharField(
        max_length=500, blank=True, help_text="by which MLflow clients address its files; its id when empty"
    )
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
    started_ms = models.BigIntegerField(null=True)
    ended_ms = models.BigIntegerField(null=True)
    reported_ms = models.BigIntegerField(null=True, help_text="when its process last reported anything")
    created_ms = models.BigIntegerField()
    changed_ms = models.BigIntegerField()
    archived_ms = models.BigIntegerField(null=True)
    deleted_ms = models.BigIntegerField(null=True, help_text="retention removes it some days after this")

    # what `measures.measure` has found of it, for tables, filters and orders
    gpu_type = models.SlugField(max_length=60, blank=True, help_text="of its job", db_index=False)
    mfu = models.FloatField(null=True, help_text="0..1")
    utilisation = models.FloatField(null=True, help_text="of its slots, 0..1")
    tokens_per_second = models.FloatField(null=True, help_text="of all ranks")
    step_seconds = models.FloatField(null=True, help_text="of the slowest rank")
    data_wait = models.FloatField(null=True, help_text="part of its time that waits for data, 0..1")
    memory_bytes = models.FloatField(null=True, help_text="the most that any rank had at any time")
    gpu_ms = models.BigIntegerField(null=True)
    micro_dollars = models.BigIntegerField(null=True)
    measured_ms = models.BigIntegerField(null=True)
    measured = models.BooleanField(default=False, help_text="for good: nothing more will come")

    class Meta:
        indexes = [
            models.Index(
                fields=["measured_ms"],
                name="runs_to_measure",
                condition=Q(measured=False) | Q(state="running"),
            ),
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

    @cached_property
    def summaries(self) -> Mapping[str, Summary]:
        """Metric → summary. `queries.with_summaries` reads those of many runs at once."""
        return metrics.summaries([self.id])[self.id]


class RunArtifact(models.Model):
    run = models.ForeignKey(Run, models.CASCADE, related_name="artifacts")
    name = models.CharField(max_length=200)
    manifest = models.ForeignKey("artifacts.Manifest", models.PROTECT)
    created_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["run", "name"], name="one_artifact_a_name")]


class LoggedModel(models.Model):
    """A model that a process saved while it trained, with its files, parameters and the metrics measured on it."""

    id = models.CharField(primary_key=True, max_length=40, help_text="m- and 32 hexadecimal digits")
    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="logged_models")
    run = models.ForeignKey(Run, models.SET_NULL, null=True, related_name="logged_models")
    name = models.CharField(max_length=500)
    kind = models.CharField(max_length=500, blank=True)
    state = models.CharField(
        max_length=10, choices=[(state, state) for state in ("pending", "ready", "failed")], default="pending"
    )
    tags = models.JSONField(default=dict, help_text="name → value, both text")
    parameters = models.JSONField(default=dict, help_text="name → value, both text")
    metrics = models.JSONField(default=list, help_text="newest value of each key, run and dataset")
    created_ms = models.BigIntegerField()
    changed_ms = models.BigIntegerField()
    deleted_ms = models.BigIntegerField(null=True)


class RunModel(models.Model):
    """A logged model that a run read or made."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="models")
    model_id = models.CharField(max_length=64)
    role = models.CharField(max_length=6, choices=[("input", "input"), ("output", "output")])
    step = models.BigIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["run", "role"], name="models_of_a_run")]


class RunDataset(models.Model):
    """A dataset that a run read."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="datasets")
    name = models.CharField(max_length=500)
    digest = models.CharField(max_length=36)
    source_type = models.TextField(blank=True)
    source = models.TextField(blank=True)
    schema = models.TextField(blank=True)
    profile = models.TextField(blank=True)
    tags = models.JSONField(default=dict, help_text="such as mlflow.data.context → training")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "name", "digest"], name="one_dataset_a_name_and_digest")
        ]


class RunFile(models.Model):
    """A file of a run or of a logged model. Each writing has a place of its own, so that kept bytes never change."""

    run = models.ForeignKey(Run, models.CASCADE, null=True, related_name="files")
    model = models.ForeignKey(LoggedModel, models.CASCADE, null=True, related_name="files")
    path = models.CharField(max_length=1000)
    size = models.BigIntegerField(null=True, help_text="null until its first writing is complete")
    sha256 = models.CharField(max_length=64, blank=True)
    generation = models.PositiveIntegerField(default=0, help_text="the writing that counts")
    begun = models.PositiveIntegerField(default=1, help_text="writings begun so far")
    part = models.JSONField(default=dict, help_text="its part of a manifest, computed while it came in")
    created_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "path"], name="one_file_of_a_run_a_path"),
            models.UniqueConstraint(fields=["model", "path"], name="one_file_of_a_model_a_path"),
            models.CheckConstraint(condition=Q(run=None) ^ Q(model=None), name="a_file_has_one_owner"),
        ]


class FileUpload(models.Model):
    """A large file on its way in, in numbered parts."""

    id = models.CharField(primary_key=True, max_length=40)
    run = models.ForeignKey(Run, models.CASCADE, null=True, related_name="+")
    model = models.ForeignKey(LoggedModel, models.CASCADE, null=True, related_name="+")
    user = models.ForeignKey("accounts.User", models.CASCADE, related_name="+")
    path = models.CharField(max_length=1000)
    parts = models.PositiveIntegerField(help_text="how many were announced")
    created_ms = models.BigIntegerField()


class RichValue(models.Model):
    """An image, table, histogram, text or sound of a run. What is small stands here, bytes lie in the store."""

    run = models.ForeignKey(Run, models.CASCADE, related_name="rich_values")
    key = models.CharField(max_length=250)
    step = models.BigIntegerField()
    index = models.PositiveSmallIntegerField(help_text="among the values that were logged together")
    kind = models.CharField(max_length=12, choices=[(kind.value, kind.value) for kind in Kind])
    at_ms = models.BigIntegerField()
    attempt = models.PositiveIntegerField(default=0)
    caption = models.CharField(max_length=1000, blank=True)
    document = models.JSONField(null=True)
    size = models.PositiveIntegerField(default=0, help_text="bytes in the store")
    media_type = models.CharField(max_length=40, blank=True)
    place = models.CharField(max_length=200, blank=True, help_text="its path in the platform's store")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["run", "key", "step", "index"], name="one_value_a_step_and_index")
        ]


class SavedView(models.Model):
    """A table of an experiment as somebody arranged it: the query of its address."""

    experiment = models.ForeignKey(Experiment, models.CASCADE, related_name="views")
    name = models.CharField(max_length=120)
    owner = models.ForeignKey("accounts.User", models.CASCADE, related_name="+")
    shared = models.BooleanField(default=False, help_text="with the team")
    query = models.TextField()
    saved_ms = models.BigIntegerField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["experiment", "owner", "name"], name="one_saved_view_a_name")
        ]


class Prediction(models.Model):
    """What the planner predicts of a job with a known model shape and layout, beside what its ranks measured."""

    run = models.OneToOneField(Run, models.CASCADE, related_name="prediction", primary_key=True)
    gpu_type = models.SlugField(max_length=60)
    gpus = models.PositiveIntegerField()
    layout = models.CharField(max_length=200)
    predicted_seconds = models.FloatField(help_text="of a step, not calibrated")
    measured_seconds = models.FloatField(help_text="of a step, without waiting for data")
    predicted_bytes = models.BigIntegerField(help_text="of the fullest GPU")
    measured_bytes = models.BigIntegerField(null=True, help_text="most that the allocator of a rank reserved")
    at_ms = models.BigIntegerField()

    class Meta:
        indexes = [models.Index(fields=["gpu_type", "-at_ms"], name="newest_predictions")]
