from django.db import models


class Experiment(models.Model):
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.CharField(max_length=120)
    created_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_experiment_a_name")]

    def __str__(self) -> str:
        return self.name


class Run(models.Model):
    """A job seen as an experiment's run: what went in, what came out."""

    id = models.CharField(primary_key=True, max_length=40, help_text="the job's id")
    job = models.OneToOneField("jobs.Job", models.CASCADE, related_name="run")
    experiment = models.ForeignKey(Experiment, models.PROTECT, related_name="runs")
    parameters = models.JSONField(default=dict)
    tags = models.JSONField(default=list)
    lineage = models.JSONField(
        default=dict, help_text="code, git, dataset, packages, seed, command, hardware"
    )
    summary = models.JSONField(default=dict, help_text="metric → its newest value, step and least value")
    ingested = models.BigIntegerField(default=0, help_text="batches of metric values kept so far")
    created_ms = models.BigIntegerField()


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
