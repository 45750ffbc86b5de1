"""Hypothesis strategies: small clusters with all that can go wrong, for brute force to judge."""

from __future__ import annotations

from hypothesis import strategies as st

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, PendingJob, RunningJob, Snapshot, TeamShare
from platform_core.jobs.constraints import Constraints
from tests.core.scheduling.situations import GIB, MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

TYPES = ("a100", "cpu")
TEAMS = ("nlp", "vision")
_STATES = [NodeState.READY] * 6 + [NodeState.SUSPECT, NodeState.LOST, NodeState.DRAINING, NodeState.DRAINED]
WINDOW = ((NOW_MS + 90 * MINUTE_MS, NOW_MS + 120 * MINUTE_MS),)


@st.composite
def nodes_with_load(draw: st.DrawFn) -> tuple[list[NodeView], list[RunningJob]]:
    nodes: list[NodeView] = []
    held: list[RunningJob] = []
    for number in range(draw(st.integers(0, 7))):
        slots = draw(st.integers(1, 4))
        busy = draw(st.sets(st.integers(0, slots - 1)))
        gpu_type = draw(st.sampled_from(["a100", "a100", "cpu"]))
        nodes.append(
            node(
                f"n{number}",
                slots=slots,
                free=[slot for slot in range(slots) if slot not in busy],
                rack=draw(st.sampled_from(["r1", "r2", "r3"])),
                block=draw(st.sampled_from(["b1", "b2"])),
                gpu_type=gpu_type,
                state=draw(st.sampled_from(_STATES)),
                cpus=slots * draw(st.sampled_from([1, 4])),
                memory_bytes=slots * draw(st.sampled_from([1, 4])) * GIB,
                labels=draw(st.sampled_from([{}, {}, {"nvlink": "yes"}])),
                taints=draw(st.sampled_from([(), (), (), ("lab",)])),
                windows=draw(st.sampled_from([(), (), (), WINDOW])),
            )
        )
        if busy:
            owner = draw(st.sampled_from(TEAMS))
            held.append(running(f"old{number}", {f"n{number}": sorted(busy)}, team=owner, gpu_type=gpu_type))
    return nodes, held


@st.composite
def constraints(draw: st.DrawFn) -> Constraints:
    return Constraints(
        labels=draw(st.sampled_from([(), (), (), (("nvlink", "yes"),)])),
        tolerations=draw(st.sampled_from([(), ("lab",)])),
        max_racks=draw(st.sampled_from([0, 0, 0, 1, 2])),
        excluded_nodes=draw(st.sampled_from([(), (), (), ("n3", "node-n4")])),
    )


@st.composite
def pending_job(draw: st.DrawFn, number: int) -> PendingJob:
    submitted = NOW_MS - draw(st.integers(0, 5)) * 60 * MINUTE_MS
    return pending(
        f"{number:02}",
        draw(st.sampled_from([1, 1, 2, 2, 3, 4, 6, 8])),
        team=draw(st.sampled_from(TEAMS)),
        gpu_type=draw(st.sampled_from(["a100", "a100", "cpu", "h100"])),
        priority=draw(st.sampled_from([0, 45, 50, 50, 100])),
        submitted_ms=submitted,
        excluded=draw(st.sets(st.sampled_from(["n0", "n1", "n2"]), max_size=2)),
        cpus_per_gpu=draw(st.sampled_from([1, 1, 1, 2])),
        memory_per_gpu_bytes=draw(st.sampled_from([1, 1, 1, 2])) * GIB,
        constraints=draw(constraints()),
        max_runtime_ms=draw(st.sampled_from([60, 60, 60, 100])) * MINUTE_MS,
    )


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    nodes, held = draw(nodes_with_load())
    queue = [draw(pending_job(number)) for number in range(draw(st.integers(0, 8)))]
    return snapshot(nodes, queue, held=held, teams=draw(shares(held)))


@st.composite
def shares(draw: st.DrawFn, held: list[RunningJob]) -> list[TeamShare]:
    teams: list[TeamShare] = []
    for name in TEAMS:
        for gpu_type in TYPES:
            if draw(st.integers(0, 9)) == 0:
                continue  # nobody gave this team a quota
            used = sum(job.held for job in held if (job.team, job.gpu_type) == (name, gpu_type))
            teams.append(
                team(
                    name,
                    gpu_type=gpu_type,
                    used=used,
                    maximum=draw(st.sampled_from([used, used + 3, 100, 100])),
                    usage_share=draw(st.sampled_from([0.0, 0.9, 1.0, 1.2, 2.5])),
                )
            )
    return teams
