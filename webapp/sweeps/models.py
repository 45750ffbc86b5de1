from django.db import models

from platform_core.sweeps.states import SweepState, TrialState


class Sweep(models.Model):
    """The fields are those of platform_core.sweeps.states.Sweep, plus whose it is."""

    id = models.CharField(primary_key=True, max_length=40)
    team = models.ForeignKey("accounts.Team", models.CASCADE)
    user = models.ForeignKey("accounts.User", models.PROTECT)
    name = models.CharField(max_length=80)
    spec = models.JSONField()
    pinned = models.JSONField(
        default=dict, help_text="of the job: the code and image that its words stood for"
    )
    lineage = models.JSONField(default=dict, help_text="git commit and folder, passed on to the jobs")
    idempotency_key = models.CharField(max_length=200, null=True)
    state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in SweepState])
    version = models.PositiveIntegerField(default=1)
    reason = models.TextField(blank=True)
    exhausted = models.BooleanField(default=False)
    failures = models.PositiveIntegerField(default=0, help_text="trials that failed in a row")
    gpu_ms = models.BigIntegerField(default=0)
    micro_dollars = models.BigIntegerField(default=0)
    created_ms = models.BigIntegerField()
    ended_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["user", "team", "idempotency_key"], name="one_sweep_an_idempotency_key"
            ),
        ]
        indexes = [models.Index(fields=["team", "-created_ms", "-id"])]

    def __str__(self) -> str:
        return self.name


class Trial(models.Model):
    """One setting of a sweep. Its job is submitted under a key made of the sweep and the number."""

    sweep = models.ForeignKey(Sweep, models.CASCADE, related_name="trials")
    number = models.PositiveIntegerField(help_text="from 1 on")
    parameters = models.JSONField()
    state = models.CharField(max_length=20, choices=[(s.value, s.value) for s in TrialState])
    job = models.OneToOneField("jobs.Job", models.SET_NULL, null=True, related_name="trial")
    reports = models.JSONField(default=list, help_text="[step, value] at the rungs of early stopping")
    value = models.FloatField(null=True)
    step = models.BigIntegerField(null=True, help_text="of the value")
    reason = models.TextField(blank=True)
    settled = models.BooleanField(default=False, help_text="no job works on it any more")
    proposed_ms = models.BigIntegerField()
    started_ms = models.BigIntegerField(null=True)
    ended_ms = models.BigIntegerField(null=True)
    notes = models.JSONField(default=dict, help_text="what the sampler keeps beside the trial")
    ask_key = models.CharField(max_length=200, null=True, help_text="of the program that asked for it")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["sweep", "number"], name="one_trial_a_number"),
            models.UniqueConstraint(fields=["sweep", "ask_key"], name="one_trial_an_ask_key"),
        ]

    def __str__(self) -> str:
        return f"{self.sweep_id} trial {self.number}"
