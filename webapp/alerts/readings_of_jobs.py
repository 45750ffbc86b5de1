"""The measures of jobs that train."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from django.core.cache import cache

from platform_core.alerting.pace import LOOKED_BACK_MS, slowdown_percent
from platform_core.efficiency.mfu import believable
from platform_core.units import MINUTE_MS
from webapp.alerts.values import Read, Reading
from webapp.checkpoints import measures as checkpoints
from webapp.jobs import measures as jobs
from webapp.metrics import queries as metrics

SCRIPT_MFU = "mfu"  # as a script logs it, where the SDK measures none
# By a rank: older values are of an earlier attempt, or of a rank that stands still.
REPORTED_WITHIN_MS = 5 * MINUTE_MS
PACE_SECONDS = 900


def _utilisation(at_ms: int) -> Iterator[Reading]:
    for job in jobs.running():
        value = None if job.utilisation is None else 100 * job.utilisation
        yield Reading(value, job.id, job.name, job.team)


def _slowdown(at_ms: int) -> Iterator[Reading]:
    running = jobs.running()
    keys = {job.id: f"alerts:pace:{job.id}" for job in running}
    known = cache.get_many(keys.values())
    kept = {}
    for job in running:
        if job.step is None:
            continue
        points = [point for point in known.get(keys[job.id], []) if at_ms - point[0] <= LOOKED_BACK_MS]
        kept[keys[job.id]] = points = [*points, (at_ms, job.step)]
        yield Reading(slowdown_percent(points, at_ms, job.steps_per_second), job.id, job.name, job.team)
    cache.set_many(kept, PACE_SECONDS)


def _mfu(at_ms: int) -> Iterator[Reading]:
    """Of the worst rank; what the script itself logs counts where the SDK measures none."""
    running, since_ms = {job.id: job for job in jobs.running()}, at_ms - REPORTED_WITHIN_MS
    measured = metrics.newest_of_ranks(running, "mfu", since_ms)
    logged = metrics.summaries(running.keys() - measured.keys(), [SCRIPT_MFU])
    for job_id, ranks in measured.items():
        possible = {rank: 100 * mfu for rank, mfu in ranks.items() if believable(mfu) is not None}
        if possible:  # else the count exceeds the hardware, and nothing is known of the job
            yield _worst_rank(running[job_id], possible)
        else:
            yield Reading(None, job_id, running[job_id].name, running[job_id].team)
    for job_id, series in logged.items():
        for summary in series.values():
            value = 100 * summary.last if summary.last <= 1 else summary.last
            known = value if summary.last_ms >= since_ms and 0 <= value <= 100 else None
            yield Reading(known, job_id, running[job_id].name, running[job_id].team)


def _data_throughput(at_ms: int) -> Iterator[Reading]:
    """By the share of its time that the rank waits for the loader which waits longest."""
    running = {job.id: job for job in jobs.running()}
    for job_id, ranks in metrics.newest_of_ranks(running, "data_share", at_ms - REPORTED_WITHIN_MS).items():
        yield _worst_rank(running[job_id], {rank: 100 * (1 - share) for rank, share in ranks.items()})


def _worst_rank(job: jobs.RunningJob, values: Mapping[int, float]) -> Reading:
    """The lowest value of those that are known, and whose it is where others do better."""
    known = {rank: value for rank, value in values.items() if math.isfinite(value)}
    if not known:
        return Reading(None, job.id, job.name, job.team)
    value, rank = min((value, rank) for rank, value in known.items())
    detail = f" at rank {rank}, the worst of {len(known)}" if len(known) > 1 else ""
    return Reading(value, job.id, job.name, job.team, detail)


def _checkpoint_time(at_ms: int) -> Iterator[Reading]:
    running = {job.id: job for job in jobs.running()}
    for job_id, times in checkpoints.slowdowns(running).items():
        yield Reading(100 * times, job_id, running[job_id].name, running[job_id].team)


READS: Mapping[str, Read] = {
    "job.utilisation": _utilisation,
    "job.slowdown": _slowdown,
    "job.mfu": _mfu,
    "job.data_throughput": _data_throughput,
    "job.checkpoint_time": _checkpoint_time,
}
