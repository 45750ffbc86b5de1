"""What is active on a node, by the rollouts that told it so: of each model the newest that still does."""

from collections import defaultdict

from platform_core.distribution.rollout import active_on, order_for
from platform_core.distribution.rollout_states import MemberState
from webapp.deployments.models import RolloutMember
from webapp.deployments.rollout_mapping import rollout_value
from webapp.deployments.values import ActivationWanted


def wanted_on(node_id: str) -> list[ActivationWanted]:
    """What of each model shall be active there."""
    parts = _parts(node_id)
    return [
        _wanted(told[0], told[1] if len(told) > 1 else None)
        for told in (_told(parts[model]) for model in sorted(parts))
        if told
    ]


def versions_in_use(node_id: str) -> set[str]:
    """Ids of the versions that are active there, or would be after a rollback."""
    parts = _parts(node_id)
    return {part.rollout.deployment.model_version_id for rows in parts.values() for part in _told(rows)[:2]}


def _parts(node_id: str) -> dict[str, list[RolloutMember]]:
    """A node's part in the rollouts of each model, the newest first."""
    rows = (
        RolloutMember.objects.filter(node=node_id)
        .select_related("rollout__deployment__model_version__model")
        .order_by("-rollout__deployment__created_ms", "-rollout_id")
    )
    parts: dict[str, list[RolloutMember]] = defaultdict(list)
    for row in rows:
        parts[str(row.rollout.deployment.model_version.model)].append(row)
    return parts


def _told(newest_first: list[RolloutMember]) -> list[RolloutMember]:
    by_rollout = {part.rollout_id: part for part in newest_first}
    return [
        by_rollout[rollout]
        for rollout in active_on((p.rollout_id, MemberState(p.state)) for p in newest_first)
    ]


def _wanted(part: RolloutMember, previous: RolloutMember | None) -> ActivationWanted:
    rollout = part.rollout
    value = rollout_value(rollout, [part])
    revision, round = order_for(value, value.members[0])
    version = rollout.deployment.model_version
    return ActivationWanted(
        model=str(version.model),
        version=str(version.version),
        deployment_id=rollout.pk,
        revision=revision,
        hook=rollout.hook,
        health_check=rollout.health_check,
        round=round,
        command_seconds=rollout.command_seconds,
        previous_version=str(previous.rollout.deployment.model_version.version) if previous else "",
    )
