"""What must hold of every plan, written without the engine's own search: slow, small and obvious."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import combinations

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, PendingJob, Snapshot
from platform_core.scheduling.decisions import Placement, Plan
from tests.core.scheduling.situations import NOW_MS


def violations(snapshot: Snapshot, plan: Plan) -> set[str]:
    """The names of the rules that the plan breaks."""
    nodes = {node.id: node for node in snapshot.nodes}
    snapshot = replace(
        snapshot, pending=tuple(without_vain_exclusions(job, nodes) for job in snapshot.pending)
    )
    jobs = {job.id: job for job in snapshot.pending}
    broken: set[str] = set()
    for placement in plan.placements:
        job = jobs[placement.job_id]
        broken |= _of_one_gang(job, placement, nodes)
    given = Counter(
        (seat.node, slot)
        for placement in plan.placements
        for seat in placement.members
        for slot in seat.slots
    )
    if any(count > 1 for count in given.values()):
        broken.add("slot given twice")
    if any(slot not in nodes[node].free_slots for node, slot in given):
        broken.add("slot was not free")
    return broken | _of_quotas(snapshot, plan, jobs) | _of_the_queue(snapshot, plan)


def _of_one_gang(job: PendingJob, placement: Placement, nodes: dict[str, NodeView]) -> set[str]:
    broken: set[str] = set()
    parts = [len(seat.slots) for seat in placement.members]
    if sum(parts) != job.num_gpus:
        broken.add("gang not whole")
    if len(set(parts)) > 1:
        broken.add("unequal parts")
    if [seat.rank for seat in placement.members] != list(range(len(parts))):
        broken.add("ranks not counted from 0")
    for seat in placement.members:
        broken |= _of_one_node(job, nodes[seat.node])
    if any(_closed(job, nodes[seat.node]) for seat in placement.members):
        broken.add("reaches into maintenance")
    if not _within_racks(job, [nodes[seat.node] for seat in placement.members]):
        broken.add("too many racks")
    return broken


def without_vain_exclusions(job: PendingJob, nodes: dict[str, NodeView]) -> PendingJob:
    """The job as it may be placed: an exclusion that leaves it no place on the whole, empty cluster is void."""
    ready = {name: replace(node, state=NodeState.READY, windows=()) for name, node in nodes.items()}
    empty = {name: node.slots for name, node in nodes.items()}
    return job if possible_places(job, ready, empty) else replace(job, excluded_nodes=())


def _of_one_node(job: PendingJob, node: NodeView) -> set[str]:
    broken: set[str] = set()
    if node.state is not NodeState.READY:
        broken.add("node not ready")
    if node.id in job.excluded_nodes:
        broken.add("excluded node")
    if node.gpu_type != job.gpu_type:
        broken.add("wrong gpu type")
    if job.cpus_per_gpu * node.slots > node.cpus:
        broken.add("too few cpus")
    if job.memory_per_gpu_bytes * node.slots > node.memory_bytes:
        broken.add("too little memory")
    wanted = job.constraints
    if not set(wanted.labels) <= set(node.labels):
        broken.add("label missing")
    if not set(node.taints) <= set(wanted.tolerations):
        broken.add("taint not tolerated")
    if {node.id, node.hostname} & set(wanted.excluded_nodes):
        broken.add("unwanted node")
    return broken


def _closed(job: PendingJob, node: NodeView) -> bool:
    """Whether its limit reaches into maintenance of the node."""
    return any(
        begin_ms < NOW_MS + job.max_runtime_ms and end_ms > NOW_MS for begin_ms, end_ms in node.windows
    )


def _within_racks(job: PendingJob, nodes: Iterable[NodeView]) -> bool:
    racks = {(node.block, node.rack) for node in nodes}
    return not job.constraints.max_racks or len(racks) <= job.constraints.max_racks


def _of_quotas(snapshot: Snapshot, plan: Plan, jobs: dict[str, PendingJob]) -> set[str]:
    started: Counter[tuple[str, str]] = Counter()
    for placement in plan.placements:
        job = jobs[placement.job_id]
        started[(job.team, job.gpu_type)] += job.num_gpus
    room = {(share.team, share.gpu_type): share.maximum - share.used for share in snapshot.teams}
    return {"quota exceeded"} if any(count > room.get(key, 0) for key, count in started.items()) else set()


def _of_the_queue(snapshot: Snapshot, plan: Plan) -> set[str]:
    """One answer for each job; who waits could not have started at its turn; gangs lie close together."""
    broken: set[str] = set()
    jobs = {job.id: job for job in snapshot.pending}
    nodes = {node.id: node for node in snapshot.nodes}
    placed = {placement.job_id: placement for placement in plan.placements}
    waits = {wait.job_id: wait for wait in plan.waits}
    if sorted(plan.order) != sorted(jobs) or sorted([*placed, *waits]) != sorted(jobs):
        broken.add("job without exactly one answer")
    if any(not wait.sentence or not wait.numbers for wait in waits.values()):
        broken.add("wait without a sentence")
    free = {node.id: len(node.free_slots) for node in snapshot.nodes}
    room = {(share.team, share.gpu_type): share.maximum - share.used for share in snapshot.teams}
    for job_id in plan.order:
        job = jobs[job_id]
        may_start = room.get((job.team, job.gpu_type), 0) >= job.num_gpus
        possible = possible_places(job, nodes, free) if may_start else []
        if job_id in placed:
            chosen = [seat.node for seat in placed[job_id].members]
            broken |= _of_locality(chosen, possible, nodes)
            for seat in placed[job_id].members:
                free[seat.node] -= len(seat.slots)
            room[(job.team, job.gpu_type)] = room.get((job.team, job.gpu_type), 0) - job.num_gpus
        elif possible:
            broken.add("passed over though it fitted")
    return broken


def possible_places(
    job: PendingJob, nodes: dict[str, NodeView], free: dict[str, int]
) -> list[tuple[str, ...]]:
    """Every set of nodes that could hold the gang in equal parts, as few as on the empty cluster."""
    may = {
        name: free[name]
        for name, node in nodes.items()
        if not _of_one_node(job, node) and not _closed(job, node)
    }
    service = {
        name: node.slots
        for name, node in nodes.items()
        if not _of_one_node(job, replace(node, state=NodeState.READY))
        and node.state in (NodeState.READY, NodeState.SUSPECT)
    }
    fewest = next(_by_count(job, nodes, service), 0)
    return list(_sets(job, nodes, may, fewest)) if fewest else []


def _by_count(job: PendingJob, nodes: dict[str, NodeView], slots: dict[str, int]) -> Iterator[int]:
    """Over how many nodes it can lie on these slots, fewest first."""
    for count in range(1, len(slots) + 1):
        if job.num_gpus % count == 0 and any(_sets(job, nodes, slots, count)):
            yield count


def _sets(
    job: PendingJob, nodes: dict[str, NodeView], slots: dict[str, int], count: int
) -> Iterator[tuple[str, ...]]:
    enough = sorted(name for name in slots if slots[name] >= job.num_gpus // count)
    for place in combinations(enough, count):
        if _within_racks(job, [nodes[name] for name in place]):
            yield place


def _of_locality(chosen: list[str], possible: list[tuple[str, ...]], nodes: dict[str, NodeView]) -> set[str]:
    if not possible:
        return {"placed where nothing fitted"}
    broken: set[str] = set()
    if len(chosen) != len(possible[0]):
        broken.add("more nodes than needed")
    if _distance(chosen, nodes) > min(_distance(place, nodes) for place in possible):
        broken.add("farther apart than needed")
    return broken


def _distance(place: tuple[str, ...] | list[str], nodes: dict[str, NodeView]) -> tuple[int, int]:
    blocks = {nodes[name].block for name in place}
    racks = {(nodes[name].block, nodes[name].rack) for name in place}
    return len(blocks), len(racks) if len(blocks) == 1 else 0
