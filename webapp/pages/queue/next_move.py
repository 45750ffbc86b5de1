"""What would be moved next against fragmentation: asked of the planner while somebody looks at the map."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.core.cache import cache
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from platform_core.cluster.snapshot import Snapshot
from platform_core.scheduling.decisions import Stop
from platform_core.scheduling.forecast import next_migration as core
from platform_core.scheduling.forecast.next_migration import NextMigration, NoMigration
from platform_core.scheduling.preemption.eviction import GAIN_OF_MIGRATION
from webapp.accounts.permissions import Actor, may, require
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import queries as jobs
from webapp.pages import fragments
from webapp.scheduling import situation

# A round over a large cluster takes a quarter of a second: not once for everybody who looks.
KEPT_SECONDS = 10
KEY = "queue:next-move"


@dataclass(frozen=True, slots=True)
class NextMovePage:
    """Fragment: move, which the map loads."""

    move: dict[str, Any]  # {why} where no move helps, else the waiting job, the cost, the gain and the stops
    allowed: bool  # whether the scheduler may move jobs


@login_required
@require_safe
def next_move(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    require(actor, "cluster.view")
    found = cache.get(KEY)
    if found is None:
        found = _found(situation.load(now_ms()))
        cache.set(KEY, found, KEPT_SECONDS)
    page = NextMovePage(_told(actor, *found), settings.SCHEDULING_PREEMPTION)
    return fragments.render(request, "queue/next_move.html", page)


class Stopped(NamedTuple):
    team: str
    slots: int
    nodes: str
    to: str  # where it would go on, if that can be told


def _found(snapshot: Snapshot) -> tuple[NextMigration | NoMigration, dict[str, Stopped]]:
    """The answer, and who would be moved."""
    found = core.next_migration(snapshot, situation.policy())
    if isinstance(found, NoMigration):
        return found, {}
    stopped = {stop.job_id for stop in found.stops}
    names = {node.id: node.hostname for node in snapshot.nodes}
    to = {room.job_id: ", ".join(names[node] for node in room.nodes) for room in found.reserved}
    where = {
        job.id: Stopped(
            job.team,
            job.held,
            ", ".join(names.get(node, node) for node, _ in job.placement),
            to.get(job.id, ""),
        )
        for job in snapshot.running
        if job.id in stopped
    }
    return found, where


def _told(actor: Actor, found: NextMigration | NoMigration, where: dict[str, Stopped]) -> dict[str, Any]:
    if isinstance(found, NoMigration):
        return {"why": found.sentence}
    job = found.job
    names = jobs.names([job.id, *(stop.job_id for stop in found.stops)])
    return {
        "pays": found.pays,
        **_known(actor, job.id, job.team, names),
        "team": job.team,
        "gpus": job.num_gpus,
        "gpu_type": job.gpu_type,
        "cost_gpu_s": found.cost_gpu_ms // 1000,
        "gain_gpu_s": found.gain_gpu_ms // 1000,
        "times": found.gain_gpu_ms / found.cost_gpu_ms if found.cost_gpu_ms else None,
        "least": GAIN_OF_MIGRATION,
        "stops": [_stop(actor, stop, where, names) for stop in found.stops],
    }


def _stop(actor: Actor, stop: Stop, where: Mapping[str, Stopped], names: Mapping[str, str]) -> dict[str, Any]:
    stopped = where.get(stop.job_id, Stopped("", 0, "", ""))
    return {
        **stopped._asdict(),
        **_known(actor, stop.job_id, stopped.team, names),
        "kind": stop.kind,
        "lost_gpu_s": stop.lost_gpu_ms // 1000,
    }


def _known(actor: Actor, job_id: str, team: str, names: Mapping[str, str]) -> dict[str, str]:
    """Neither id nor name where the job is none of theirs."""
    seen = may(actor, "job.view", team)
    return {"job": job_id if seen else "", "name": names.get(job_id, job_id) if seen else ""}
