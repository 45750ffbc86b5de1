from django.db import models

from platform_core.distribution.deployments.deployment import DeploymentState, WorkerState


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
    priority = models.PositiveSmallIntegerField(
        default=10, help_text="its weight where deployments share a node's link"
    )
    rate_cap = models.BigIntegerField(
        default=0, help_text="bytes per second in, and out, at each node; 0: no cap"
    )
    pacing = models.JSONField(
        default=dict,
        help_text="what the coordinator saw last, to judge by: whoever leads next goes on with it",
    )
    preheat = models.BooleanField(
        default=False, help_text="fetched and verified before anybody needs it, never activated"
    )
    pinned = models.BooleanField(default=False, help_text="no node gives it up for room")
    estimates = models.JSONField(
        default=list, help_text="what each strategy would have taken, as planned; the quickest first"
    )
    estimated_ms = models.BigIntegerField()
    estimated_low_ms = models.BigIntegerField(null=True, help_text="null: of before there was an interval")
    estimated_high_ms = models.BigIntegerField(null=True)
    estimate_basis = models.CharField(
        max_length=100, blank=True, help_text="where the rates were from, as a phrase"
    )
    bound_ms = models.BigIntegerField(default=0, help_text="the least that any strategy could take")
    created_ms = models.BigIntegerField()
    started_ms = models.BigIntegerField(null=True)
    finished_ms = models.BigIntegerField(null=True)
    reason = models.TextField(blank=True)

    # What its nodes say together, kept as they say it: nobody who looks back should have to add up every node of every
    # deployment that ever was.
    node_states = models.JSONField(default=dict, help_text="state → how many nodes are in it")
    moved_bytes = models.BigIntegerField(default=0)
    store_bytes = models.BigIntegerField(default=0)
    refused_bytes = models.BigIntegerField(default=0)
    retries = models.BigIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["state"]), models.Index(fields=["team", "-created_ms"])]


class Worker(models.Model):
    """One node's part of a deployment."""

    deployment = models.ForeignKey(Deployment, models.CASCADE, related_name="workers")
    node = models.ForeignKey("nodes.Node", models.PROTECT)
    position = models.PositiveIntegerField(help_text="in rack order")
    lanes = models.JSONField(
        default=list, help_text='by lane node ids in order of preference, "store" is the store'
    )
    slower = models.JSONField(default=list, help_text="lanes whose first source is quicker than this node")
    pace = models.PositiveSmallIntegerField(default=100, help_text="what it takes in percent of the usual")
    sends = models.PositiveSmallIntegerField(default=100, help_text="in percent of the usual")
    held = models.JSONField(default=list, help_text="bytes, by lane")
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
    moved_bytes = models.BigIntegerField(
        default=0, help_text="that ever came and were verified; never less than it was"
    )
    retries = models.PositiveIntegerField(default=0)
    trouble = models.TextField(blank=True, help_text="why it asked again last")
    distrusted = models.JSONField(default=list, help_text="who sent it damaged bytes")
    store_bytes = models.BigIntegerField(default=0, help_text="pulled from the store by itself")
    refused_bytes = models.BigIntegerField(default=0, help_text="with another SHA-256, thrown away")
    from_peer = models.BooleanField(default=False)
    error_code = models.CharField(max_length=40, blank=True)
    error = models.TextField(blank=True)
    started_ms = models.BigIntegerField(null=True)
    finished_ms = models.BigIntegerField(null=True)
    seen_ms = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["deployment", "node"], name="one_worker_a_node")]


class TeamCap(models.Model):
    """What all deployments of a team together may take of one node's link."""

    team = models.OneToOneField("accounts.Team", models.CASCADE, primary_key=True)
    bytes_per_second = models.BigIntegerField(help_text="in, and out")
