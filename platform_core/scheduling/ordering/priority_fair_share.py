"""The user's priority, made worse by a team's overuse and better by a long wait.

Half of a priority range (50) is lost for each whole share a team has used beyond its own, and one point is
won for ten minutes of waiting, at most 20: a patient job passes its neighbours, never an urgent one.

What a team has used is held against a job less and less, and after a week of waiting not at all. Otherwise the gang of
a team whose small jobs keep it above its share would wait for as long as others send jobs. So after a week a job stands
as high as any of its priority can: before it are the more urgent, and of its own priority those submitted earlier.
"""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.ordering import overuse
from platform_core.scheduling.ordering.keys import Keys, OrderKey, as_if_it_waited

OVERUSE_POINTS = 50.0
MINUTES_A_POINT = 10.0
MOST_WAIT_POINTS = 20.0
_MINUTE_MS = 60_000


def keys(snapshot: Snapshot) -> Keys:
    over, now_ms = overuse.of_teams(snapshot), snapshot.now_ms

    def key(job: PendingJob) -> OrderKey:
        waited_ms = max(0, now_ms - job.waiting_since_ms)
        bonus = min(MOST_WAIT_POINTS, waited_ms / _MINUTE_MS / MINUTES_A_POINT)
        penalty = over.get((job.team, job.gpu_type), 0.0) * OVERUSE_POINTS * overuse.counts(waited_ms)
        rank = job.priority + penalty - bonus
        return (rank, job.submitted_ms, job.id)

    return Keys(key, as_if_it_waited(key, now_ms))
