"""The coordinator of deployments: any number may run, one leads at a time, and another adopts when it is gone.

Nothing is known to a coordinator alone. The plan and what it judges by are rows; what nodes hold is what their agents
say, all of it again with each new session. So to adopt is no more than to hold the lease: whoever comes next reads the
rows, and transfers under way have not noticed.
"""

import logging
import os
import socket
from typing import Any

from django.db import transaction

from platform_core.distribution import deployment as core
from platform_core.distribution.deployment import WorkerState
from platform_core.distribution.pace import USUAL, Seen, Watch, look
from webapp.clusters import queries as clusters
from webapp.deployments import seating, services
from webapp.deployments.models import Deployment, Worker
from webapp.live import lease
from webapp.live import services as live
from webapp.live.identity import now_ms
from webapp.live.lease import Leadership

log = logging.getLogger(__name__)

MEASURE_MS = 4_000  # over which rates are judged
JITTER_MS = 250  # of what a lane gets may be missed by when it was counted


def coordinate() -> bool:
    """One round. False when another replica is in the middle of one."""
    leadership = lease.acquire("deployments", f"{socket.gethostname()}:{os.getpid()}")
    if leadership is None:
        return False
    try:
        active = Deployment.objects.filter(state__in=list(core.ACTIVE)).order_by("id")
        for deployment_id in active.values_list("id", flat=True):
            look_after(deployment_id, leadership)
    except lease.LostLease as lost:
        log.info("round dropped: %s", lost)
    finally:
        lease.release(leadership)
    return True


def look_after(deployment_id: str, leadership: Leadership) -> None:
    """Workers whose node is lost count as failed; those who became slower or quicker than they count are seated anew.

    LostLease, and nothing changed, when another coordinator leads by now.
    """
    with transaction.atomic():
        lease.check(leadership)
        row = (
            Deployment.objects.select_for_update(of=("self",))
            .select_related("model_version__model")
            .get(id=deployment_id)
        )
        waiting = Worker.objects.filter(deployment=row, state__in=[WorkerState.IDLE, WorkerState.RECEIVING])
        for node in waiting.filter(node__state="lost").values_list("node_id", flat=True):
            services.node_lost(row, node)
        now = now_ms()
        seating.reseat(row)
        if now - row.pacing.get("at_ms", 0) >= MEASURE_MS:
            _judge_paces(row, now)


def _judge_paces(row: Deployment, now: int) -> None:
    workers = list(Worker.objects.filter(deployment=row, seated=True).select_related("node"))
    seen = {
        worker.node_id: Seen(worker.seen_ms, tuple(worker.held))
        for worker in workers
        if worker.state == WorkerState.RECEIVING and worker.held and not worker.verifying
    }
    watch, changed = look(_watch(row.pacing), seen, map(seating.seat, workers), JITTER_MS)
    Deployment.objects.filter(id=row.id).update(pacing=_document(watch, now))
    if changed:
        seating.reseat(row, changed)
    for node, pace in changed.items():
        _tell(row, node, pace)


def _tell(row: Deployment, node: str, pace: int) -> None:
    if pace == USUAL:
        kind, cause = "WorkerQuickAgain", "takes as much as the others again, and has its place among them"
    else:
        kind, cause = (
            "WorkerSlow",
            f"takes {pace} % of what the others do; it goes on below them, so nobody waits for it",
        )
    live.record(
        kind, f"deployment:{row.id}", actor="system", team=row.team_id,
        cause=f"{clusters.with_hostnames(node)} {cause}", data={"name": str(row.model_version)},
        notify=(f"deployments:{row.team_id}",),
    )  # fmt: skip


def _watch(document: dict[str, Any]) -> Watch:
    seen = {node: Seen(at_ms, tuple(held)) for node, (at_ms, held) in document.get("seen", {}).items()}
    return Watch(seen, document.get("usual", 0.0), document.get("doubts", {}))


def _document(watch: Watch, now: int) -> dict[str, Any]:
    seen = {node: [each.at_ms, each.held] for node, each in watch.seen.items()}
    return {"at_ms": now, "seen": seen, "usual": watch.usual, "doubts": dict(watch.doubts)}
