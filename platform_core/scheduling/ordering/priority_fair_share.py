"""The user's priority, made worse by a team's overuse and better by a long wait.

Half of a priority range (50) is lost for each whole share a team has used beyond its own, and one point is
won for ten minutes of waiting, at most 20: a patient job passes its neighbours, never an urgent one.
"""

from __future__ import annotations

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.ordering.keys import Keys, OrderKey, as_if_it_waited

OVERUSE_POINTS = 50.0
MINUTES_A_POINT = 10.0
MOST_WAIT_POINTS = 20.0
_MINUTE_MS = 60_000


def keys(snapshot: Snapshot) -> Keys:
    penalty = {
        (team.team, team.gpu_type): max(0.0, (team.usage_share - 1.0) * OVERUSE_POINTS)
        for team in snapshot.teams
    }
    now_ms = snapshot.now_ms

    def key(job: PendingJob) -> OrderKey:
        waited_minutes = max(0, now_ms - job.waiting_since_ms) / _MINUTE_MS
        bonus = min(MOST_WAIT_POINTS, waited_minutes / MINUTES_A_POINT)
        rank = job.priority + penalty.get((job.team, job.gpu_type), 0.0) - bonus
        return (rank, job.submitted_ms, job.id)

    return Keys(key, as_if_it_waited(key, now_ms))
