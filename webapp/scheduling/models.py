from django.db import models

from platform_core.scheduling.decisions import StopKind


class Round(models.Model):
    """A round that changed something: all that was known and all that was decided, to be replayed byte for byte."""

    at_ms = models.BigIntegerField(db_index=True)
    fencing = models.BigIntegerField()
    took_ms = models.PositiveIntegerField(help_text="to plan, without loading and applying")
    pending = models.PositiveIntegerField()
    started = models.PositiveIntegerField()
    preempted = models.PositiveIntegerField()
    known = models.BinaryField(help_text="snapshot and policy as canonical JSON, deflated")
    decided = models.BinaryField(help_text="the plan as canonical JSON, deflated")


class Prediction(models.Model):
    """When a job should start: as first told, which is judged, and as told last, which is shown."""

    job_id = models.CharField(primary_key=True, max_length=40)
    made_ms = models.BigIntegerField()
    early_ms = models.BigIntegerField()
    late_ms = models.BigIntegerField(null=True)
    newest_early_ms = models.BigIntegerField(null=True, help_text="null: its start is not in sight any more")
    newest_late_ms = models.BigIntegerField(null=True)
    started_ms = models.BigIntegerField(null=True)

    class Meta:
        indexes = [models.Index(fields=["-started_ms"])]


class Receipt(models.Model):
    """The platform took a running job's slots: what that cost, and who caused it, another job or who took a node."""

    at_ms = models.BigIntegerField(db_index=True)
    job_id = models.CharField(max_length=40)
    team = models.CharField(max_length=60)
    for_job = models.CharField(max_length=40, blank=True)
    for_team = models.CharField(max_length=60, blank=True)
    node = models.CharField(max_length=255, blank=True, help_text="hostname of the one that was taken")
    by = models.CharField(max_length=200, blank=True, help_text="the actor who took it")
    kind = models.CharField(max_length=20, choices=[(kind.value, kind.value) for kind in StopKind])
    gpu_type = models.SlugField(max_length=60)
    lost_gpu_ms = models.BigIntegerField(help_text="work since the last checkpoint, and the resume")


class WhatIf(models.Model):
    """A question to the simulator, and its answer once it is there."""

    user = models.ForeignKey("accounts.User", models.CASCADE)
    asked_ms = models.BigIntegerField()
    question = models.JSONField()
    answer = models.JSONField(null=True)
    error = models.TextField(blank=True)
