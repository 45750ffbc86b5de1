from django.db import models

from platform_core.distribution.deployment import DeploymentState, WorkerState


class Deployment(models.Model):
    """One model version on its way to some nodes."""

    id = models.CharField(primary_key=True, max_length=40)
    team = models.ForeignKey("accounts.Team", models.PROTECT)
    user = models.ForeignKey("accounts.User", models.PROTECT)
    model_version = models.ForeignKey("registry.ModelVersion", models.PROTECT, related_name="deployments")
    source_url = models.TextField()
    strategy = models.CharField(max_length=20, default="mesh")
    state = models.CharField(max_length=14, choices=[(s.value, s.value) for s in DeploymentState])
    version = models.PositiveIntegerField(default=1)
    estimated_ms = models.BigIntegerField()
    created_ms = models.BigIntegerField()
    started_ms = models.BigIntegerField(null=True)
    finished_ms = models.BigIntegerField(null=True)
    reason = models.TextField(blank=True)

    class Meta:
        indexes = [models.Index(fields=["state"]), models.Index(fields=["team", "-created_ms"])]


class Worker(models.Model):
    """One node's part of a deployment."""

    deployment = models.ForeignKey(Deployment, models.CASCADE, related_name="workers")
    node = models.ForeignKey("clusters.Node", models.PROTECT)
    position = models.PositiveIntegerField(help_text="in rack order")
    lanes = models.JSONField(
        default=list, help_text="by lane node ids in order of preference, '' is the store"
    )
    seated = models.BooleanField(
        default=True, help_text="part of the mesh: not failed when it was last planned"
    )
    retry = models.PositiveIntegerField(default=0, help_text="how often somebody asked it to try again")
    state = models.CharField(max_length=10, choices=[(s.value, s.value) for s in WorkerState])
    bytes_done = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField()
    chunks_done = models.BinaryField(default=bytes, help_text="bitmap")
    verifying = models.BooleanField(default=False)
    rate_in = models.FloatField(default=0)
    rate_out = models.FloatField(default=0)
    source = models.CharField(max_length=60, blank=True)
    retries = models.PositiveIntegerField(default=0)
    distrusted = models.JSONField(default=list, help_text="who sent it damaged bytes")
    store_bytes = models.BigIntegerField(default=0, help_text="pulled from the store by itself")
    from_peer = models.BooleanField(default=False)
    error_code = models.CharField(max_length=40, blank=True)
    error = models.TextField(blank=True)
    started_ms = models.BigIntegerField(null=True)
    finished_ms = models.BigIntegerField(null=True)
    seen_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["deployment", "node"], name="one_worker_a_node")]
