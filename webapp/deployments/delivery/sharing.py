"""What a deployment may take of each node's link: its priority, its cap, and its team's."""

from math import inf

from django.db import transaction

from platform_core.distribution.deployments.sharing import Share
from platform_core.errors import TrainmasterError
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.deployments.models import Deployment, TeamCap, Worker
from webapp.events import services as events
from webapp.nodes import services as clusters

PRIORITIES = range(1, 101)

MOST_RATE = 2**50  # bytes per second, a thousand times what any link has


def check(priority: int, rate_cap: int) -> None:
    if priority not in PRIORITIES:
        raise TrainmasterError(
            "request_invalid", what="priority", why=f"it is {priority}; it must be 1 to 100"
        )
    if not 0 <= rate_cap <= MOST_RATE:
        why = f"it is {rate_cap}; it goes from 1 to {MOST_RATE} bytes per second, and 0 is no cap"
        raise TrainmasterError("request_invalid", what="rate_cap", why=why)


def share_of(row: Deployment) -> Share:
    return Share(row.priority, row.rate_cap or inf, row.team_id, _team_cap(row.team_id))


def least_cap(team: str, rate_cap: int) -> float:
    """Bytes per second that a deployment with this cap may take of a node at most; inf: nothing limits it."""
    return min(rate_cap or inf, _team_cap(team))


def _team_cap(team: str) -> float:
    return TeamCap.objects.filter(team=team).values_list("bytes_per_second", flat=True).first() or inf


@transaction.atomic
def change(
    actor: Actor, deployment_id: str, priority: int | None = None, rate_cap: int | None = None
) -> None:
    """While it is under way too: what moves goes on at another rate."""
    row = Deployment.objects.select_for_update(of=("self",)).filter(id=deployment_id).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"deployment {deployment_id}")
    permissions.require(actor, "deployment.create", row.team_id, what=f"deployment {deployment_id}")
    before = (row.priority, row.rate_cap)
    row.priority = row.priority if priority is None else priority
    row.rate_cap = row.rate_cap if rate_cap is None else rate_cap
    check(row.priority, row.rate_cap)
    if before == (row.priority, row.rate_cap):
        return
    row.save(update_fields=["priority", "rate_cap"])
    clusters.touch(Worker.objects.filter(deployment=row).values_list("node_id", flat=True))
    cap = f"at most {row.rate_cap} bytes per second on each node" if row.rate_cap else "no cap"
    events.record(
        "DeploymentShareChanged", f"deployment:{row.id}", actor=actor.name, team=row.team_id,
        cause=f"priority {row.priority}, {cap}", data={"name": str(row.model_version)},
        notify=(f"deployments:{row.team_id}",),
    )  # fmt: skip
