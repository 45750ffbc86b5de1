"""A rollout as REST takes and tells it."""

from typing import Any

from rest_framework import serializers

from platform_core.distribution.canaries import (
    DEFAULT_COMMAND_SECONDS,
    LONGEST_COMMAND_SECONDS,
    LONGEST_HOLD_MS,
)
from platform_core.distribution.rollout import hold_ends_ms
from platform_core.distribution.rollout_states import MemberState
from webapp.deployments import activity
from webapp.deployments.models import Deployment, Rollout
from webapp.deployments.rollout_mapping import rollout_value
from webapp.deployments.values import RolloutWish


class RolloutIn(serializers.Serializer[Any]):
    """How the nodes shall switch to the version. Without it they only get the bytes."""

    activate = serializers.BooleanField(required=False, default=True, help_text="false: the bytes alone")
    canary = serializers.CharField(
        max_length=20, required=False, default="", allow_blank=True, help_text="how many go first: 3 or 10%"
    )
    hold_seconds = serializers.IntegerField(
        required=False, default=None, allow_null=True, min_value=0, max_value=LONGEST_HOLD_MS // 1000,
        help_text="for how long the canaries are watched; null: until somebody promotes",
    )  # fmt: skip
    health_check = serializers.CharField(
        max_length=100, required=False, default="", allow_blank=True,
        help_text="command of the canaries' folder of hooks",
    )  # fmt: skip
    hook = serializers.CharField(
        max_length=100, required=False, default="", allow_blank=True, help_text="command after each switch"
    )
    wait_for_all = serializers.BooleanField(
        required=False, default=False, help_text="nobody switches before every node holds the version"
    )
    command_seconds = serializers.IntegerField(
        required=False, default=DEFAULT_COMMAND_SECONDS, min_value=1, max_value=LONGEST_COMMAND_SECONDS
    )


class CheckOut(serializers.Serializer[Any]):
    node = serializers.CharField()
    exit_code = serializers.IntegerField()
    output = serializers.CharField()


class RolloutOut(serializers.Serializer[Any]):
    state = serializers.CharField()
    reason = serializers.CharField()
    replaced_by = serializers.IntegerField(
        allow_null=True, help_text="a later version that was promoted since"
    )
    nodes = serializers.IntegerField()
    nodes_active = serializers.IntegerField()
    nodes_failed = serializers.IntegerField(help_text="their hook failed, their link went back")
    canaries = serializers.ListField(child=serializers.CharField(), help_text="hostnames")
    hold_ends_ms = serializers.IntegerField(allow_null=True)
    checks = CheckOut(many=True, help_text="the newest of each canary")


def wish(data: dict[str, Any] | None) -> RolloutWish | None:
    if data is None:
        return None
    given = dict(data)
    return RolloutWish(**given) if given.pop("activate") else None


def told(row: Deployment) -> dict[str, Any] | None:
    rollout = Rollout.objects.filter(deployment=row).first()
    if rollout is None:
        return None
    members = list(rollout.members.select_related("node").order_by("position"))
    states = [member.state for member in members]
    canaries = [member for member in members if member.canary]
    return RolloutOut(
        {
            "state": rollout.state,
            "reason": rollout.reason,
            "replaced_by": activity.replaced_by(rollout),
            "nodes": len(members),
            "nodes_active": states.count(MemberState.ACTIVE),
            "nodes_failed": states.count(MemberState.FAILED),
            "canaries": [member.node.hostname for member in canaries],
            "hold_ends_ms": hold_ends_ms(rollout_value(rollout, members)),
            "checks": [
                {"node": m.node.hostname, "exit_code": m.check_exit_code, "output": m.check_output}
                for m in canaries
                if m.check_exit_code is not None
            ],
        }
    ).data
