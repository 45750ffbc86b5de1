"""Short ways to write down a cluster and its queue, with harmless defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, PendingJob, RunningJob, Snapshot, TeamShare
from platform_core.jobs.constraints import ANYWHERE, Constraints

NOW_MS = 1_800_000_000_000
GIB = 1 << 30
MINUTE_MS = 60_000


def node(
    name: str,
    *,
    free: int | Sequence[int] | None = None,
    slots: int = 8,
    rack: str = "r1",
    block: str = "b1",
    gpu_type: str = "a100",
    state: NodeState = NodeState.READY,
    cpus: int = 64,
    memory_bytes: int = 512 * GIB,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[str] = (),
    windows: Sequence[tuple[int, int]] = (),
    islands: Sequence[Sequence[int]] = (),
) -> NodeView:
    """`free` is a count (the last slots of the node) or the indices themselves; all are free by default."""
    if free is None:
        free = slots
    indices = tuple(range(slots - free, slots)) if isinstance(free, int) else tuple(free)
    return NodeView(
        f"node-{name}", name, rack, block, gpu_type, slots, indices, state, tuple(sorted((labels or {}).items())),
        cpus, memory_bytes, tuple(taints), tuple(windows), tuple(tuple(island) for island in islands),
    )  # fmt: skip


def pending(
    name: str,
    gpus: int,
    *,
    team: str = "vision",
    gpu_type: str = "a100",
    priority: int = 50,
    submitted_ms: int = NOW_MS,
    waiting_since_ms: int | None = None,
    excluded: Iterable[str] = (),
    cpus_per_gpu: int = 1,
    memory_per_gpu_bytes: int = GIB,
    max_runtime_ms: int = 3_600_000,
    constraints: Constraints = ANYWHERE,
    least: int = 0,
    resize_to: int = 0,
) -> PendingJob:
    return PendingJob(
        id=f"job-{name}",
        team=team,
        user="alice",
        num_gpus=gpus,
        min_gpus=least or gpus,
        gpu_type=gpu_type,
        priority=priority,
        submitted_ms=submitted_ms,
        excluded_nodes=tuple(f"node-{each}" for each in excluded),
        preemptible=True,
        max_runtime_ms=max_runtime_ms,
        waiting_since_ms=submitted_ms if waiting_since_ms is None else waiting_since_ms,
        cpus_per_gpu=cpus_per_gpu,
        memory_per_gpu_bytes=memory_per_gpu_bytes,
        constraints=constraints,
        resize_to=resize_to,
    )


def running(
    name: str,
    where: Mapping[str, Sequence[int]],
    *,
    team: str = "vision",
    gpu_type: str = "a100",
    priority: int = 50,
    started_ms: int = NOW_MS - MINUTE_MS,
    expected_end_ms: int | None = None,
) -> RunningJob:
    placement = tuple((f"node-{each}", tuple(slots)) for each, slots in where.items())
    gpus = sum(len(slots) for _, slots in placement)
    return RunningJob(
        id=f"job-{name}",
        team=team,
        gpu_type=gpu_type,
        priority=priority,
        placement=placement,
        started_ms=started_ms,
        expected_end_ms=expected_end_ms,
        last_checkpoint_ms=None,
        preemptible=True,
        num_gpus=gpus,
        min_gpus=gpus,
    )


def team(
    name: str = "vision",
    *,
    gpu_type: str = "a100",
    guaranteed: int = 0,
    maximum: int = 1_000,
    used: int = 0,
    usage_share: float = 1.0,
) -> TeamShare:
    return TeamShare(name, gpu_type, guaranteed, maximum, used, 1.0, usage_share)


def snapshot(
    nodes: Sequence[NodeView],
    queue: Sequence[PendingJob],
    *,
    held: Sequence[RunningJob] = (),
    teams: Sequence[TeamShare] | None = None,
    now_ms: int = NOW_MS,
) -> Snapshot:
    """Every team that asks gets a wide quota unless `teams` says otherwise."""
    if teams is None:
        asked = sorted({(job.team, job.gpu_type) for job in queue})
        teams = [team(name, gpu_type=gpu_type) for name, gpu_type in asked]
    return Snapshot(now_ms, tuple(nodes), tuple(queue), tuple(held), tuple(teams))
