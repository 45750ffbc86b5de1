from django.db import models


class Model(models.Model):
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    name = models.SlugField(max_length=120)
    description = models.TextField(blank=True)
    created_ms = models.BigIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="one_model_a_name")]

    def __str__(self) -> str:
        return f"{self.team_id}/{self.name}"


class ModelVersion(models.Model):
    id = models.CharField(primary_key=True, max_length=40)
    model = models.ForeignKey(Model, models.CASCADE, related_name="versions")
    version = models.PositiveIntegerField()
    state = models.CharField(
        max_length=12, choices=[(s, s) for s in ("registering", "ready", "failed")], default="registering"
    )
    error = models.TextField(blank=True)
    manifest = models.ForeignKey("artifacts.Manifest", models.PROTECT, null=True)
    source = models.TextField(help_text="checkpoint id or URL")
    job = models.ForeignKey("jobs.Job", models.SET_NULL, null=True, help_text="the run it came from")
    metrics = models.JSONField(default=dict)
    created_ms = models.BigIntegerField()
    created_by = models.ForeignKey("accounts.User", models.PROTECT)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["model", "version"], name="one_version_a_number")]

    def __str__(self) -> str:
        return f"{self.model.name} v{self.version}"
