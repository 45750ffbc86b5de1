"""The input of the engine: the cluster as it is now, and the operator's policy."""

from dataclasses import replace

from django.conf import settings
from django.db import transaction

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.policy import PRODUCTION, Policy
from platform_core.scheduling.spares import Spare, choose, hold
from webapp.datasets import queries as datasets
from webapp.jobs import workload
from webapp.jobs.queries import known_spares
from webapp.nodes import queries as cluster_queries
from webapp.quotas import queries as quota_queries


def load(now: int) -> Snapshot:
    """Return the cluster as the engine takes it, in a handful of queries whatever its size."""
    with transaction.atomic():
        snapshot = Snapshot(
            now_ms=now,
            nodes=cluster_queries.snapshot_nodes(),
            pending=_with_holders(workload.pending()),
            running=workload.running(),
            teams=quota_queries.team_shares(now),
        )
        return hold(snapshot, spares(snapshot))


def spares(snapshot: Snapshot) -> tuple[Spare, ...]:
    """Return the spare nodes of the running jobs that want some."""
    wishes = workload.spare_wishes()
    return choose(snapshot, wishes, known_spares()) if wishes else ()


def _with_holders(pending: tuple[PendingJob, ...]) -> tuple[PendingJob, ...]:
    """The jobs with the nodes that hold their datasets."""
    versions = workload.waiting_for_data()
    if not versions:
        return pending
    manifests = datasets.manifests(versions.values())
    nodes = cluster_queries.holders(sorted(set(manifests.values())))
    holders = {job: nodes.get(manifests.get(version, ""), ()) for job, version in versions.items()}
    return tuple(replace(job, holders=holders.get(job.id, ())) for job in pending)


def policy() -> Policy:
    """Return the production policy with the operator's settings in it."""
    return replace(
        PRODUCTION,
        evicts=settings.SCHEDULING_PREEMPTION,
        migrates=settings.SCHEDULING_PREEMPTION,
        least_run_ms=settings.SCHEDULING_LEAST_RUN_SECONDS * 1000,
        stop_grace_ms=settings.STOP_GRACE_SECONDS * 1000,
        elastic=settings.SCHEDULING_ELASTIC,
        reclaims=settings.SCHEDULING_RECLAIM,
        place_wait_ms=settings.SCHEDULING_PLACE_WAIT_SECONDS * 1000,
    )
