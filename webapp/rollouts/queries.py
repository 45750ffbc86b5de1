"""What is active on a node, by the rollouts that told it so: of each model the newest that still does."""

from collections.abc import Collection

from platform_core.distribution.rollouts.rollout import active_on, order_for
from platform_core.distribution.rollouts.states import TOLD, MemberState, RolloutState
from platform_core.node.wanted import ActivationWanted
from webapp.rollouts.mapping import rollout_value
from webapp.rollouts.models import Rollout, RolloutMember


def wanted_on(node_ids: Collection[str]) -> dict[str, list[ActivationWanted]]:
    """Returns by node the version of each model that is to be active there."""
    newest = _newest_two(node_ids)
    return {node: [_wanted(*parts) for parts in newest[node]] for node in node_ids}


def versions_in_use(node_ids: Collection[str]) -> dict[str, set[str]]:
    """Returns by node the ids of the versions that are active there, or would be after a rollback."""
    newest = _newest_two(node_ids)
    return {
        node: {part.rollout.deployment.model_version_id for parts in newest[node] for part in parts}
        for node in node_ids
    }


def replaced_by(rollout: Rollout) -> int | None:
    """Returns the newest version that all nodes were told to run since."""
    if rollout.state == RolloutState.ROLLED_BACK:
        return None
    later = Rollout.objects.filter(
        model=rollout.model_id, promoted=True, deployment__created_ms__gt=rollout.deployment.created_ms
    ).exclude(state=RolloutState.ROLLED_BACK)
    versions = later.order_by("-deployment__created_ms").values_list(
        "deployment__model_version__version", flat=True
    )
    return versions.first()


def is_in_use(deployment_id: str) -> bool:
    """Whether its version is what nodes run, or are about to: not rolled back, and no newer one took its place."""
    rollout = Rollout.objects.select_related("deployment").filter(deployment=deployment_id).first()
    return rollout is not None and rollout.state != RolloutState.ROLLED_BACK and replaced_by(rollout) is None


def _newest_two(node_ids: Collection[str]) -> dict[str, list[list[RolloutMember]]]:
    """Of each node and model its part in the rollout that it follows, and in the one that it would go back to."""
    history: dict[str, dict[int, list[tuple[str, MemberState]]]] = {node: {} for node in node_ids}
    parts_told = RolloutMember.objects.filter(node__in=node_ids, state__in=list(TOLD))
    newest_first = parts_told.order_by("-rollout__deployment__created_ms", "-rollout_id")
    for node, model, rollout, state in newest_first.values_list(
        "node_id", "rollout__model_id", "rollout_id", "state"
    ):
        history[node].setdefault(model, []).append((rollout, MemberState(state)))
    chosen = {
        node: [active_on(models[model])[:2] for model in sorted(models)] for node, models in history.items()
    }
    rollouts = {rollout for pairs in chosen.values() for pair in pairs for rollout in pair}
    rows = parts_told.filter(rollout__in=rollouts).select_related("rollout__deployment__model_version__model")
    parts = {(row.node_id, row.rollout_id): row for row in rows}
    return {
        node: [[parts[node, rollout] for rollout in pair] for pair in pairs] for node, pairs in chosen.items()
    }


def _wanted(part: RolloutMember, previous: RolloutMember | None = None) -> ActivationWanted:
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
