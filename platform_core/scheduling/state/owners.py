"""Which waiting jobs the guarantees of their teams cover, and whom they overtake."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from platform_core.cluster.snapshot import PendingJob
from platform_core.scheduling.estimates import with_gpus
from platform_core.scheduling.state.round_state import RoundState


def owners_of(queue: Sequence[PendingJob], state: RoundState) -> set[str]:
    """The first jobs of each team, as far as its guarantee covers them; no job overtakes one of its own team.

    A job larger than the whole guarantee blocks nobody: it can only borrow.
    """
    asked = Counter[tuple[str, str]]()
    closed: set[tuple[str, str]] = set()
    owners: set[str] = set()
    for job in queue:
        team = (job.team, job.gpu_type)
        if state.is_migrating(job.id):  # its slots are counted where it still runs
            owners |= {job.id} if state.quota.guarantees(*team, 0) else set()
            continue
        if team in closed or job.min_gpus > state.quota.guaranteed(*team):
            continue
        asked[team] += job.min_gpus
        if state.quota.guarantees(*team, asked[team]):
            owners.add(job.id)
        else:
            closed.add(team)
    return owners


def overtaken_by(queue: Sequence[PendingJob], state: RoundState, owners: set[str]) -> dict[str, PendingJob]:
    """Owner → the first job of its team that can only borrow, where the owner comes later in order.

    If that job waits for quota, the owners that come could use up for ever what running jobs free.
    """
    first: dict[tuple[str, str], PendingJob] = {}
    overtaken: dict[str, PendingJob] = {}
    for job in queue:
        team = (job.team, job.gpu_type)
        if team in first:
            if job.id in owners:
                overtaken[job.id] = first[team]
        elif job.id not in owners:
            least = with_gpus(job, job.min_gpus)
            if state.could_start(least):
                first[team] = least
    return overtaken
