from django.db import models

from platform_core.distribution.rollouts.rollout import UNSETTLED
from platform_core.distribution.rollouts.states import MemberState, RolloutState


class Rollout(models.Model):
    """The switching of a deployment's nodes to its version; a deployment without one only brings the bytes."""

    deployment = models.OneToOneField("deployments.Deployment", models.CASCADE, primary_key=True)
    model = models.ForeignKey("registry.Model", models.PROTECT)
    canaries = models.PositiveIntegerField()
    hold_ms = models.BigIntegerField(null=True, help_text="null: until somebody promotes")
    health_check = models.CharField(max_length=100, blank=True)
    check_every_ms = models.BigIntegerField(help_text="0: at both ends of the hold alone")
    roll_back_after = models.PositiveIntegerField(
        help_text="failed checks of a canary in a row; 0: never by itself"
    )
    hook = models.CharField(max_length=100, blank=True)
    wait_for_all = models.BooleanField(default=False)
    command_seconds = models.PositiveIntegerField()
    state = models.CharField(max_length=14, choices=[(s.value, s.value) for s in RolloutState])
    version = models.PositiveIntegerField(default=1)
    round = models.PositiveIntegerField(default=0, help_text="of health checks")
    asked_ms = models.BigIntegerField(null=True, help_text="when this round began")
    holding_since_ms = models.BigIntegerField(null=True)
    stopped = models.BooleanField(default=False)
    released = models.BooleanField(default=False)
    promoted = models.BooleanField(default=False)
    reason = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["model"],
                condition=models.Q(state__in=sorted(state.value for state in UNSETTLED)),
                name="one_rollout_at_a_time",
            )
        ]


class RolloutMember(models.Model):
    """One node's part of a rollout."""

    rollout = models.ForeignKey(Rollout, models.CASCADE, related_name="members")
    node = models.ForeignKey("nodes.Node", models.PROTECT)
    position = models.PositiveIntegerField(help_text="in the order in which nodes become canaries")
    state = models.CharField(max_length=10, choices=[(s.value, s.value) for s in MemberState])
    canary = models.BooleanField(default=False)
    revision = models.PositiveIntegerField(default=0, help_text="how often it was told to switch")
    told_ms = models.BigIntegerField(null=True, help_text="when, the last time")
    check_round = models.PositiveIntegerField(null=True)
    check_exit_code = models.IntegerField(null=True)
    check_output = models.TextField(blank=True)
    check_failures = models.PositiveIntegerField(default=0, help_text="in a row")
    exit_code = models.IntegerField(null=True, help_text="of the hook that failed; null: it gave no answer")
    output = models.TextField(blank=True)
    why = models.TextField(blank=True, help_text="it has no copy")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rollout", "node"], name="one_part_a_node")]
