from django.db import models
from django.db.models import Q

from platform_core.serving.states import EndpointState, ReplicaState


class Endpoint(models.Model):
    """The wanted state of a service: which version answers, and how many replicas it has."""

    id = models.CharField(primary_key=True, max_length=40)
    team = models.ForeignKey("accounts.Team", models.PROTECT)
    user = models.ForeignKey("accounts.User", models.PROTECT)
    name = models.CharField(max_length=60)
    spec = models.JSONField()
    stable = models.ForeignKey("registry.ModelVersion", models.PROTECT, related_name="+")
    followed = models.ForeignKey(
        "registry.ModelVersion",
        models.SET_NULL,
        null=True,
        related_name="+",
        help_text="last tried for its alias",
    )
    canary = models.ForeignKey("registry.ModelVersion", models.PROTECT, null=True, related_name="+")
    canary_policy = models.JSONField(default=dict, help_text="how the canary is judged")
    canary_since_ms = models.BigIntegerField(null=True)
    canary_ready_ms = models.BigIntegerField(null=True, help_text="when its first replica was ready")
    verdict = models.TextField(blank=True, help_text="what was last said of a canary")
    state = models.CharField(
        max_length=12, choices=[(s.value, s.value) for s in EndpointState], default=EndpointState.STARTING
    )
    reason = models.TextField(blank=True, help_text="why it is not as wanted")
    wanted = models.PositiveIntegerField(help_text="replicas, by the last plan of scaling")
    scaling_reason = models.TextField(blank=True)
    was_ready = models.BooleanField(default=False)
    drift = models.JSONField(
        default=dict, help_text="last look for drift: at_ms, references and window (rows), findings"
    )
    collection = models.JSONField(
        default=dict, help_text="of its newest dataset: at_ms, snapshot, version, last (id), error"
    )
    stopped = models.BooleanField(default=False)
    created_ms = models.BigIntegerField()
    stopped_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["team", "name"], condition=Q(stopped_ms=None), name="one_living_endpoint_a_name"
            )
        ]


class Replica(models.Model):
    """One service job of an endpoint."""

    id = models.CharField(primary_key=True, max_length=40)
    endpoint = models.ForeignKey(Endpoint, models.CASCADE, related_name="replicas")
    job = models.OneToOneField("jobs.Job", models.CASCADE)
    model_version = models.ForeignKey("registry.ModelVersion", models.PROTECT, related_name="+")
    state = models.CharField(max_length=10, choices=[(s.value, s.value) for s in ReplicaState])
    since_ms = models.BigIntegerField(help_text="in this state")
    healthy_ms = models.BigIntegerField(default=0, help_text="when a router last found it ready")
    healthy_attempt = models.PositiveIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["state"], name="replicas_by_state")]


class TrafficSample(models.Model):
    """What one router saw of one version of an endpoint in ten seconds."""

    endpoint = models.ForeignKey(Endpoint, models.CASCADE, related_name="traffic")
    model_version = models.ForeignKey("registry.ModelVersion", models.CASCADE, related_name="+")
    router = models.CharField(max_length=40)
    at_ms = models.BigIntegerField(help_text="the beginning of the ten seconds")
    requests = models.PositiveIntegerField()
    errors = models.PositiveIntegerField()
    in_flight_ms = models.BigIntegerField(help_text="sum of the time that requests were in it")
    latencies = models.JSONField(help_text="counts by bucket")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "model_version", "router", "at_ms"], name="one_sample_a_router"
            )
        ]
        indexes = [models.Index(fields=["at_ms"], name="traffic_by_time")]


class ShadowSample(models.Model):
    """What one router saw of a shadow in ten seconds: copies of requests, whose callers were answered by another."""

    endpoint = models.ForeignKey(Endpoint, models.CASCADE, related_name="shadows")
    model_version = models.ForeignKey("registry.ModelVersion", models.CASCADE, related_name="+")
    router = models.CharField(max_length=40)
    at_ms = models.BigIntegerField(help_text="the beginning of the ten seconds")
    requests = models.PositiveIntegerField()
    errors = models.PositiveIntegerField()
    latencies = models.JSONField(help_text="counts by bucket")
    compared = models.PositiveIntegerField(help_text="answers beside those of the version in use")
    alike = models.PositiveIntegerField()
    difference = models.FloatField(help_text="sum over the compared (platform_core.serving.comparison)")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "model_version", "router", "at_ms"], name="one_shadow_sample_a_router"
            )
        ]
        indexes = [models.Index(fields=["at_ms"], name="shadows_by_time")]


class AnswerSample(models.Model):
    """The features of one request and its answer; never the request itself."""

    endpoint = models.ForeignKey(Endpoint, models.CASCADE, related_name="answer_samples")
    model_version = models.ForeignKey("registry.ModelVersion", models.CASCADE, related_name="+")
    at_ms = models.BigIntegerField()
    features = models.JSONField(
        help_text="name → number, text or list of numbers (platform_core.drift.features)"
    )

    class Meta:
        indexes = [models.Index(fields=["endpoint", "model_version", "id"], name="answers_of_a_version")]


class CollectedRequest(models.Model):
    """A sampled request and its answer, kept as data with the consent of the caller."""

    endpoint = models.ForeignKey(Endpoint, models.CASCADE, related_name="collected")
    model_version = models.ForeignKey("registry.ModelVersion", models.CASCADE, related_name="+")
    request = models.CharField(max_length=64, help_text="X-Request-Id")
    at_ms = models.BigIntegerField()
    rows = models.JSONField(help_text="input and output of each row (platform_core.serving.collection)")
    bytes = models.PositiveIntegerField(help_text="of rows")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["endpoint", "request"], name="one_collected_request")]
        indexes = [models.Index(fields=["endpoint", "at_ms"], name="collected_by_time")]


class TrainingReference(models.Model):
    """Features of a sample of the data that a version was trained on, from the file that came with it."""

    model_version = models.OneToOneField(
        "registry.ModelVersion", models.CASCADE, primary_key=True, related_name="+"
    )
    at_ms = models.BigIntegerField()
    rows = models.JSONField(default=list, help_text="features of each row (platform_core.drift.features)")
    problem = models.TextField(blank=True, help_text="why it could not be read")


class Prediction(models.Model):
    """What a version answered to one sampled request, until a label says what was right."""

    endpoint = models.ForeignKey(Endpoint, models.CASCADE, related_name="predictions")
    model_version = models.ForeignKey("registry.ModelVersion", models.CASCADE, related_name="+")
    request = models.CharField(max_length=64, help_text="X-Request-Id of the request and of its answer")
    at_ms = models.BigIntegerField()
    outputs = models.JSONField(help_text="features of the answer (platform_core.serving.quality)")
    correct = models.BooleanField(null=True, help_text="null: it has no label")
    error = models.FloatField(null=True)
    label = models.JSONField(null=True)
    labelled_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["endpoint", "request", "model_version"], name="one_prediction_a_version"
            )
        ]
        indexes = [
            models.Index(fields=["endpoint", "model_version", "-at_ms"], name="predictions_of_a_version")
        ]
