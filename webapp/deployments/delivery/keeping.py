"""What stays on the nodes: which versions a node shall hold, and what it shall never give up for room."""

from collections.abc import Collection, Iterable

from django.db import transaction

from platform_core.distribution.deployments.deployment import DeploymentState, WorkerState
from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.deployments.models import Deployment, Worker
from webapp.events import services as events
from webapp.nodes import services as clusters

VERSIONS_KEPT = 2  # on a node, of each model: the newest, and the one before it to go back to


def kept(newest_first: Iterable[Worker], in_use: Collection[str] = ()) -> list[Worker]:
    """Of all that was ever brought to a node what it shall hold: of each model the newest versions; beside them as
    many that were only preheated, all that are pinned, and those in use. What it gave up for room is not fetched
    again by itself."""
    versions: dict[tuple[int, bool], set[str]] = {}
    given_up: set[str] = set()
    stays = []
    for row in newest_first:
        version, preheat = row.deployment.model_version, row.deployment.preheat
        if row.state == WorkerState.EVICTED:
            given_up.add(version.id)
        if version.id in given_up:
            continue
        of_model = versions.setdefault((version.model_id, preheat), set())
        if version.id in of_model:
            continue
        if len(of_model) < VERSIONS_KEPT:
            of_model.add(version.id)
        elif not row.deployment.pinned and version.id not in in_use:
            continue
        stays.append(row)
    return stays


@transaction.atomic
def pin(actor: Actor, deployment_id: str, pinned: bool) -> None:
    """The nodes of this deployment never give its files up for room, or may again."""
    row = Deployment.objects.select_for_update(of=("self",)).filter(id=deployment_id).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"deployment {deployment_id}")
    permissions.require(actor, "deployment.create", row.team_id, what=f"deployment {deployment_id}")
    if row.pinned == pinned:
        return
    if pinned and row.state == DeploymentState.CANCELLED:
        raise TrainmasterError(
            "request_invalid", what=f"A pin on {deployment_id}", why="it is cancelled; deploy it again first"
        )
    row.pinned = pinned
    row.save(update_fields=["pinned"])
    clusters.touch(Worker.objects.filter(deployment=row).values_list("node_id", flat=True))
    events.record(
        "DeploymentPinned" if pinned else "DeploymentUnpinned",
        f"deployment:{row.id}",
        actor=actor.name,
        team=row.team_id,
        data={"name": str(row.model_version)},
        notify=(f"deployments:{row.team_id}",),
    )
