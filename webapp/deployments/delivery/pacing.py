"""Who became slower or quicker than it counts, by what the lanes of a deployment got in the last seconds."""

from typing import Any

from platform_core.distribution.deployments.deployment import WorkerState
from platform_core.distribution.planning.forest import USUAL
from platform_core.distribution.slow_nodes.pace import Watch, look
from platform_core.distribution.slow_nodes.windows import Seen
from webapp.deployments.delivery import seating
from webapp.deployments.models import Deployment, Worker
from webapp.events import services as events
from webapp.nodes import queries as clusters

MEASURE_MS = 4_000  # over which rates are judged
JITTER_MS = 250  # of what a lane gets may be missed by when it was counted


def judge(row: Deployment, now: int) -> None:
    """Inside the caller's transaction, which holds the row: each window anew; whose pace changed is seated anew."""
    if now - row.pacing.get("at_ms", 0) < MEASURE_MS:
        return
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
    for node, pace in changed.paces.items():
        if pace == USUAL:
            _tell(
                row,
                node,
                "WorkerQuickAgain",
                "takes as much as the others again, and has its place among them",
            )
        else:
            slow = f"takes {pace} % of what the others do; it goes on below them, so nobody waits for it"
            _tell(row, node, "WorkerSlow", slow)
    for node, percent in changed.sends.items():
        sends = f"sends {percent} % of what the others do; it feeds no more of them than it can from now on"
        _tell(row, node, "WorkerSendsSlowly", sends)


def _tell(row: Deployment, node: str, kind: str, cause: str) -> None:
    events.record(
        kind, f"deployment:{row.id}", actor="system", team=row.team_id,
        cause=f"{clusters.with_hostnames(node)} {cause}", data={"name": str(row.model_version)},
        notify=(f"deployments:{row.team_id}",),
    )  # fmt: skip


def _watch(document: dict[str, Any]) -> Watch:
    seen = {node: Seen(at_ms, tuple(held)) for node, (at_ms, held) in document.get("seen", {}).items()}
    return Watch(
        seen,
        document.get("usual", 0.0),
        document.get("doubts", {}),
        document.get("accused", {}),
        document.get("settling", 0),
        document.get("weak", {}),
    )


def _document(watch: Watch, now: int) -> dict[str, Any]:
    seen = {node: [each.at_ms, each.held] for node, each in watch.seen.items()}
    return {
        "at_ms": now, "seen": seen, "usual": watch.usual, "doubts": dict(watch.doubts),
        "accused": dict(watch.accused),
        "settling": watch.settling, "weak": dict(watch.weak),
    }  # fmt: skip
