"""One round: load a snapshot, let the core decide, apply by guarded updates under the lease's fencing number."""

import logging
import os
import socket

from django.conf import settings
from django.db import transaction

from platform_core.cluster.snapshot import Snapshot
from platform_core.scheduling.decisions import Plan, Wait
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from webapp.clusters import queries as cluster_queries
from webapp.clusters import services as clusters
from webapp.jobs import hints
from webapp.jobs import queries as job_queries
from webapp.jobs import services as jobs
from webapp.live.identity import now_ms
from webapp.quotas import queries as quota_queries
from webapp.scheduling import lease
from webapp.scheduling.lease import Leadership

log = logging.getLogger(__name__)


def tick() -> bool:
    """One scheduling round. False when another replica is in the middle of one."""
    hints.tick_begins()  # first, so that whatever changes from here on asks for another round
    leadership = lease.acquire("scheduler", f"{socket.gethostname()}:{os.getpid()}")
    if leadership is None:
        return False
    try:
        _round(leadership)
    except lease.LostLease as lost:
        log.info("round dropped: %s", lost)
    finally:
        lease.release(leadership)
    return True


def _round(leadership: Leadership) -> None:
    now = now_ms()
    for node_id in clusters.sweep(now):
        jobs.node_lost(node_id, now)
    jobs.stop_overdue(now)
    snapshot = load(now)
    if snapshot.pending:
        apply(plan(snapshot, Policy(order=settings.SCHEDULING_POLICY)), leadership, now)


def load(now: int) -> Snapshot:
    """The cluster as it is now, in a handful of queries whatever its size."""
    with transaction.atomic():
        return Snapshot(
            now_ms=now,
            nodes=cluster_queries.snapshot_nodes(),
            pending=job_queries.pending(),
            running=job_queries.running(),
            teams=quota_queries.team_shares(now),
        )


def apply(decided: Plan, leadership: Leadership, now: int) -> None:
    """Start what was placed, a transaction each; then tell the others why they wait."""
    for placement in decided.placements:
        with transaction.atomic():
            lease.check(leadership)
            seats = [(seat.node, seat.rank, seat.slots) for seat in placement.members]
            if not jobs.place(placement.job_id, seats, placement.reason, now):
                log.info("placement of %s was stale; the next round plans it again", placement.job_id)
    positions = {
        job_id: index for index, job_id in enumerate((wait.job_id for wait in decided.waits), start=1)
    }
    with transaction.atomic():
        lease.check(leadership)
        jobs.explain_waits([_wait(wait, positions[wait.job_id]) for wait in decided.waits])


def _wait(wait: Wait, position: int) -> jobs.WaitReason:
    return jobs.WaitReason(wait.job_id, wait.code, wait.sentence, dict(wait.numbers), position)
