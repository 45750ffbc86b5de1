"""Who receives from whom: the mesh of a deployment, as rows; mended when workers leave it or come back."""

from collections.abc import Mapping

from platform_core.distribution.deployments.deployment import WorkerState
from platform_core.distribution.deployments.presence import silent
from platform_core.distribution.planning import forest
from platform_core.distribution.planning.forest import Forest, Seat
from platform_core.distribution.planning.repair import mend
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.slow_nodes.pace import Changes
from webapp.base.identity import now_ms
from webapp.deployments.models import Deployment, Worker
from webapp.nodes import services as cluster_services

GONE = frozenset({WorkerState.FAILED, WorkerState.EVICTED})  # they have nothing to pass on
SILENT_MS = 3_000  # agents tell of a delivery under way twice a second


def lanes(grown: Forest) -> dict[str, list[list[str]]]:
    """Each node's sources, lane by lane."""
    return {each.node: [list(lane) for lane in each.lanes] for each in forest.node_plans(grown)}


def reseat(row: Deployment, changes: Changes = Changes()) -> None:
    """Inside the caller's transaction, which holds the row. Those who failed or fell silent leave the mesh, those who
    are back join it, those of another pace go among their like, those who send slowly feed fewer; only nodes whose
    sources change are told. What their neighbours did by themselves meanwhile was quicker."""
    rows = Worker.objects.filter(deployment=row, node__transfer_port__gt=0).select_related("node")
    workers = {worker.node_id: worker for worker in rows}
    absent = _absent(row, workers)
    gone = {node for node in absent if workers[node].seated}
    back = {node for node, worker in workers.items() if not worker.seated} - absent
    if not gone and not back and not changes:
        return
    where = {node: Place(node, worker.node.rack, worker.node.block) for node, worker in workers.items()}
    before = Forest(
        len(next(iter(workers.values())).lanes),
        tuple(seat(worker) for _, worker in sorted(workers.items()) if worker.seated),
    )
    paces = {node: worker.pace for node, worker in workers.items()} | dict(changes.paces)
    sends = {node: worker.sends for node, worker in workers.items()} | dict(changes.sends)
    after = mend(before, gone, [where[node] for node in sorted(back)], paces, sends)
    seats = {seat.node: seat for seat in after.seats}
    Worker.objects.filter(deployment=row, node__in=gone).update(seated=False)
    changed = []
    for plan in forest.node_plans(after):
        worker, lanes, slower = workers[plan.node], [list(lane) for lane in plan.lanes], sorted(plan.slower)
        rates = {"pace": seats[plan.node].pace, "sends": seats[plan.node].sends}
        if rates != {"pace": worker.pace, "sends": worker.sends}:
            Worker.objects.filter(id=worker.id).update(**rates)
        if plan.node in back or (worker.lanes, worker.slower) != (lanes, slower):
            Worker.objects.filter(id=worker.id).update(lanes=lanes, slower=slower, seated=True)
            changed.append(plan.node)
    cluster_services.touch(changed)


def _absent(row: Deployment, workers: Mapping[str, Worker]) -> set[str]:
    """Long before a node counts as lost it is heard that its agent says nothing of the delivery any more."""
    heard = {
        node: max(worker.seen_ms, row.created_ms)
        for node, worker in workers.items()
        if worker.state in (WorkerState.IDLE, WorkerState.RECEIVING)
    }
    failed = {node for node, worker in workers.items() if worker.state in GONE}
    return failed | silent(heard, now_ms(), SILENT_MS)


def seat(worker: Worker) -> Seat:
    parents = tuple(lane[0] for lane in worker.lanes)
    return Seat(worker.node_id, (worker.node.block, worker.node.rack), parents, worker.pace, worker.sends)
