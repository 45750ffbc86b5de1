"""What is active on a node, by the rollouts that told it so: of each model the newest that still does."""

from collections import defaultdict

from platform_core.distribution.rollout import active_on, order_for
from platform_core.distribution.rollout_states import TOLD, MemberState, RolloutState
from webapp.deployments.mapping import rollout_value
from webapp.deployments.models import Rollout, RolloutMember
from webapp.deployments.values import ActivationWanted


def wanted_on(node_id: str) -> list[ActivationWanted]:
    """What of each model shall be active there."""
    return [_wanted(*parts) for parts in _newest_two(node_id)]


def versions_in_use(node_id: str) -> set[str]:
    """Ids of the versions that are active there, or would be after a rollback."""
    return {part.rollout.deployment.model_version_id for parts in _newest_two(node_id) for part in parts}


def replaced_by(rollout: Rollout) -> int | None:
    """The newest version that all nodes were told to run since."""
    if rollout.state == RolloutState.ROLLED_BACK:
        return None
    later = Rollout.objects.filter(
        model=rollout.model_id, promoted=True, deployment__created_ms__gt=rollout.deployment.created_ms
    ).exclude(state=RolloutState.ROLLED_BACK)
    versions = later.order_by("-deployment__created_ms").values_list(
        "deployment__model_version__version", flat=True
    )
    return versions.first()


def _newest_two(node_id: str) -> list[list[RolloutMember]]:
    """Of each model the node's part in the rollout that it follows, and in the one that it would go back to."""
    history: dict[int, list[tuple[str, MemberState]]] = defaultdict(list)
    told = RolloutMember.objects.filter(node=node_id, state__in=list(TOLD))
    newest_first = told.order_by("-rollout__deployment__created_ms", "-rollout_id")
    for model, rollout, state in newest_first.values_list("rollout__model_id", "rollout_id", "state"):
        history[model].append((rollout, MemberState(state)))
    chosen = [active_on(history[model])[:2] for model in sorted(history)]
    rows = told.filter(rollout__in=[rollout for pair in chosen for rollout in pair])
    by_rollout = {
        row.rollout_id: row for row in rows.select_related("rollout__deployment__model_version__model")
    }
    return [[by_rollout[rollout] for rollout in pair] for pair in chosen]


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
