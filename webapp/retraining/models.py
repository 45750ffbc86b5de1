from django.db import models

from platform_core.retraining.cycle import ENDED, CycleState
from platform_core.retraining.triggers import Trigger


class Policy(models.Model):
    """When the versions of a model are retrained; without a row never."""

    model = models.OneToOneField("registry.Model", models.CASCADE, related_name="retraining")
    spec = models.JSONField(help_text="platform_core.retraining.policy")
    author = models.ForeignKey(
        "accounts.User", models.PROTECT, related_name="+", help_text="its cycles act as this person"
    )
    changed_ms = models.BigIntegerField()
    watched = models.JSONField(default=dict, help_text="since when each condition holds, of which version")
    held = models.JSONField(
        default=dict, help_text="of the last look: what asks for a cycle, and why none began (reasons)"
    )
    looked_ms = models.BigIntegerField(default=0)


class Cycle(models.Model):
    """One way from production back to production. It keeps the policy by which it began."""

    id = models.CharField(primary_key=True, max_length=40)
    model = models.ForeignKey("registry.Model", models.CASCADE, related_name="cycles")
    spec = models.JSONField(help_text="the policy when it began")
    author = models.ForeignKey("accounts.User", models.PROTECT, related_name="+")
    asked_by = models.ForeignKey(
        "accounts.User", models.SET_NULL, null=True, related_name="+", help_text="null: the policy"
    )
    trigger = models.CharField(max_length=8, choices=[(one.value, one.value) for one in Trigger])
    cause = models.TextField(help_text="what asked for it, with the numbers")
    state = models.CharField(max_length=12, choices=[(one.value, one.value) for one in CycleState])
    reason = models.TextField(blank=True)
    approved_by = models.JSONField(default=list, help_text="usernames, in the order of the approvals")
    base = models.ForeignKey("registry.ModelVersion", models.PROTECT, related_name="+")
    endpoint = models.ForeignKey("serving.Endpoint", models.SET_NULL, null=True, related_name="+")
    dataset = models.CharField(max_length=40, blank=True, help_text="snapshot that its job reads")
    job = models.OneToOneField("jobs.Job", models.SET_NULL, null=True, related_name="+")
    version = models.OneToOneField("registry.ModelVersion", models.SET_NULL, null=True, related_name="+")
    began_ms = models.BigIntegerField()
    since_ms = models.BigIntegerField(help_text="in this state")
    ended_ms = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["model"], name="one_open_cycle_a_model", condition=~models.Q(state__in=sorted(ENDED))
            )
        ]
        indexes = [models.Index(fields=["model", "-began_ms"], name="cycles_of_a_model")]
