"""What the scheduler adds to the pages of a job, of a team and of nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from platform_core.jobs.states import WAITING
from platform_core.units import DAY_MS
from webapp.accounts.permissions import Actor, may
from webapp.base.identity import now_ms
from webapp.jobs import queries as jobs
from webapp.scheduling import queries
from webapp.scheduling.models import Receipt

PERIOD_MS = 30 * DAY_MS  # as the other costs on the page of a team
RECEIPTS_SHOWN = 20


@dataclass(frozen=True, slots=True)
class KeptPlace:
    """Nodes that a waiting job is to get together. Who may not see the job is told its team alone."""

    job_id: str  # "" for those
    name: str  # "large-gang", or "a job of vision"
    team: str
    gpus: int
    gpu_type: str
    starts: str  # "in about 20 min"
    nodes: tuple[str, ...]


def of_job(job: Any) -> dict[str, Any]:
    if job.state not in WAITING:
        return {}
    return {
        "should_start": lambda: _start(job),
        "kept": "reserved_start_ms" in job.wait_numbers,
        "kept_on": lambda: queries.kept_places([job.wait_place])(job.wait_place),
        "waits": True,
    }


def _start(job: Any) -> str:
    return queries.start_in_words(job, queries.forecasts([job.id]).get(job.id), now_ms())


def kept_places(actor: Actor) -> tuple[KeptPlace, ...]:
    """As the queue tells them, and with the nodes: each of these is marked on the map."""
    waiting = list(jobs.in_queue_order(jobs.visible(None)).exclude(wait_place=[]))
    now = now_ms()
    forecasts = queries.forecasts([job.id for job in waiting]) if waiting else {}
    return tuple(
        KeptPlace(
            job_id=job.id if (seen := may(actor, "job.view", job.team_id)) else "",
            name=job.name if seen else f"a job of {job.team_id}",
            team=job.team_id,
            gpus=job.num_gpus,
            gpu_type=job.gpu_type,
            starts=queries.start_in_words(job, forecasts.get(job.id), now),
            nodes=tuple(job.wait_place),
        )
        for job in waiting
    )


def of_team(actor: Actor, team: str) -> dict[str, Any]:
    """What being stopped by the platform has cost, and what it cost others that they were stopped for this team."""
    now = now_ms()
    return {
        "receipts": lambda: receipts(queries.receipts_of_team(team, now - PERIOD_MS, RECEIPTS_SHOWN), actor),
        "losses": lambda: _sum(team, queries.losses(now - PERIOD_MS, now)),
    }


def _sum(team: str, losses: Mapping[tuple[str, str], queries.Losses]) -> queries.Losses:
    mine = [each for (whose, _), each in losses.items() if whose == team]
    return queries.Losses(sum(each.lost_gpu_ms for each in mine), sum(each.caused_gpu_ms for each in mine))


def receipts(rows: Sequence[Receipt], actor: Actor) -> list[dict[str, Any]]:
    """Whom it concerns may follow them to the jobs; the others see the teams."""
    names = jobs.names([job for row in rows for job in (row.job_id, row.for_job)])
    return [
        {
            "at_ms": row.at_ms,
            "kind": row.kind,
            "job": row.job_id if may(actor, "job.view", row.team) else "",
            "name": names.get(row.job_id, row.job_id),
            "team": row.team,
            "for_job": row.for_job if may(actor, "job.view", row.for_team) else "",
            "for_name": names.get(row.for_job, row.for_job),
            "for_team": row.for_team,
            "node": row.node,
            "by": row.by,
            "lost_gpu_ms": row.lost_gpu_ms,
        }
        for row in rows
    ]
