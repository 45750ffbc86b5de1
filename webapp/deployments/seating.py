"""Who receives from whom: the mesh of a deployment, as rows; mended when workers leave it or come back."""

from collections.abc import Mapping

from platform_core.distribution import forest
from platform_core.distribution.deployment import WorkerState
from platform_core.distribution.forest import Forest, Seat
from platform_core.distribution.planners.routes import Place
from platform_core.distribution.repair import mend
from webapp.clusters import services as cluster_services
from webapp.deployments.models import Deployment, Worker


def lanes(grown: Forest) -> dict[str, list[list[str]]]:
    """Each node's sources, lane by lane."""
    return {each.node: [list(lane) for lane in each.lanes] for each in forest.node_plans(grown)}


def reseat(row: Deployment, paces: Mapping[str, int] | None = None) -> None:
    """Inside the caller's transaction, which holds the row. Those who failed leave the mesh, those who are back join
    it, those of another pace (in percent) go among their like; only nodes whose sources change are told. What their
    neighbours did by themselves meanwhile was quicker."""
    rows = Worker.objects.filter(deployment=row).select_related("node")
    workers = {worker.node_id: worker for worker in rows}
    gone = {node for node, worker in workers.items() if worker.seated and worker.state == WorkerState.FAILED}
    back = {
        node for node, worker in workers.items() if not worker.seated and worker.state != WorkerState.FAILED
    }
    if not gone and not back and not paces:
        return
    where = {node: Place(node, worker.node.rack, worker.node.block) for node, worker in workers.items()}
    before = Forest(
        len(next(iter(workers.values())).lanes),
        tuple(_seat(worker, where[node]) for node, worker in sorted(workers.items()) if worker.seated),
    )
    known = {node: worker.pace for node, worker in workers.items()} | dict(paces or {})
    after = mend(before, gone, [where[node] for node in sorted(back)], known)
    seats = {seat.node: seat for seat in after.seats}
    Worker.objects.filter(deployment=row, node__in=gone).update(seated=False)
    told = []
    for plan in forest.node_plans(after):
        worker, lanes, slower = workers[plan.node], [list(lane) for lane in plan.lanes], sorted(plan.slower)
        pace = seats[plan.node].pace
        if plan.node in back or (worker.lanes, worker.slower, worker.pace) != (lanes, slower, pace):
            Worker.objects.filter(id=worker.id).update(lanes=lanes, slower=slower, pace=pace, seated=True)
            told.append(plan.node)
    cluster_services.touch(told)


def _seat(worker: Worker, place: Place) -> Seat:
    parents = tuple(lane[0] for lane in worker.lanes)
    return Seat(worker.node_id, (place.block, place.rack), parents, worker.pace)
