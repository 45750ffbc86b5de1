"""The time of one scheduling round over nodes and pending jobs: `python -m benchmarks.scheduler_round`.

Two clusters for each size: `busy` (500 gangs hold nearly every GPU; almost all jobs must be told why they
wait) and `empty` (the round has to seat gangs until everything is full). The goal is 250 ms for 1,250 nodes
of 8 GPUs, 500 running and 5,000 pending jobs of 50 teams. With `production` one job in ten is elastic and what is
lent is taken back; `without_lending` is the same round without either.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from pathlib import Path
from statistics import median

import click

from benchmarks import round_curves
from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, PendingJob, RunningJob, Snapshot, TeamShare
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import PRODUCTION, Policy

NOW_MS = 1_800_000_000_000
GIB = 1 << 30
GOAL_MS = 250
TEAMS = [f"team-{number:02}" for number in range(50)]
SIZES = [1, 1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64]


def nodes_of(count: int) -> list[NodeView]:
    """Racks of 8 nodes, blocks of 16 racks, one node in 50 draining."""
    return [
        NodeView(
            id=f"node-{number:05}",
            hostname=f"n{number}",
            rack=f"rack-{number // 8:04}",
            block=f"block-{number // 128:03}",
            gpu_type="a100-80gb",
            slots=8,
            free_slots=tuple(range(8)),
            state=NodeState.DRAINING if number % 50 == 7 else NodeState.READY,
            labels=(),
            cpus=128,
            memory_bytes=2048 * GIB,
        )
        for number in range(count)
    ]


def pending_of(count: int, rng: random.Random, nodes: int) -> list[PendingJob]:
    """One job in twenty excludes a node where it failed, so that many demands differ."""
    return [
        PendingJob(
            id=f"job-{number:06}",
            team=rng.choice(TEAMS),
            user="user",
            num_gpus=gpus,
            min_gpus=gpus,
            gpu_type="a100-80gb",
            priority=rng.choice([20, 50, 50, 80]),
            submitted_ms=NOW_MS - rng.randrange(86_400_000),
            excluded_nodes=(f"node-{rng.randrange(nodes):05}",) if rng.random() < 0.05 else (),
            preemptible=True,
            max_runtime_ms=86_400_000,
            waiting_since_ms=NOW_MS - rng.randrange(86_400_000),
            cpus_per_gpu=rng.choice([4, 8, 16]),
            memory_per_gpu_bytes=rng.choice([16, 64]) * GIB,
        )
        for number, gpus in enumerate(rng.choices(SIZES, k=count))
    ]


def occupied(
    nodes: list[NodeView], gangs: int, rng: random.Random
) -> tuple[list[NodeView], list[RunningJob]]:
    """All but about 2 % of the slots, shared by the gangs; a gang holds neighbouring nodes."""
    slots = [(node.id, slot) for node in nodes for slot in range(8)]
    kept = {where for where in slots if rng.random() < 0.02}
    taken = [where for where in slots if where not in kept]
    running: list[RunningJob] = []
    for number in range(gangs):
        mine = taken[len(taken) * number // gangs : len(taken) * (number + 1) // gangs]
        by_node: dict[str, list[int]] = {}
        for node, slot in mine:
            by_node.setdefault(node, []).append(slot)
        placement = tuple((node, tuple(held)) for node, held in by_node.items())
        running.append(
            RunningJob(
                id=f"job-r{number:05}",
                team=TEAMS[number % len(TEAMS)],
                gpu_type="a100-80gb",
                priority=50,
                placement=placement,
                started_ms=NOW_MS - 3_600_000,
                expected_end_ms=NOW_MS + rng.randrange(1, 86_400_000),
                last_checkpoint_ms=None,
                preemptible=True,
                num_gpus=len(mine),
                min_gpus=len(mine),
            )
        )
    free = [
        replace(node, free_slots=tuple(slot for slot in range(8) if (node.id, slot) in kept))
        for node in nodes
    ]
    return free, running


def situation(node_count: int, job_count: int, gangs: int, seed: int) -> Snapshot:
    rng = random.Random(seed)
    nodes, running = nodes_of(node_count), list[RunningJob]()
    if gangs:
        nodes, running = occupied(nodes, gangs, rng)
        running = [asking(job) for job in running]
    used = {team: sum(job.held for job in running if job.team == team) for team in TEAMS}
    teams = tuple(
        TeamShare(
            team, "a100-80gb", node_count // 6, used[team] + node_count, used[team], 1.0, rng.uniform(0, 2)
        )
        for team in TEAMS
    )
    return Snapshot(
        NOW_MS, tuple(nodes), tuple(pending_of(job_count, rng, node_count)), tuple(running), teams
    )


def with_elastic(snapshot: Snapshot) -> Snapshot:
    """One job in ten may run with half of its GPUs."""
    pending = [
        replace(job, min_gpus=-(-job.num_gpus // 2)) if number % 10 == 0 else job
        for number, job in enumerate(snapshot.pending)
    ]
    running = [
        asking(replace(job, min_gpus=-(-job.held // 2))) if number % 10 == 0 else job
        for number, job in enumerate(snapshot.running)
    ]
    return replace(snapshot, pending=tuple(pending), running=tuple(running))


def asking(job: RunningJob) -> RunningJob:
    """With what it would ask for if it waited."""
    asks = PendingJob(
        id=job.id,
        team=job.team,
        user="user",
        num_gpus=job.num_gpus,
        min_gpus=job.min_gpus,
        gpu_type=job.gpu_type,
        priority=job.priority,
        submitted_ms=job.submitted_ms,
        excluded_nodes=(),
        preemptible=True,
        max_runtime_ms=86_400_000,
        waiting_since_ms=job.submitted_ms,
        cpus_per_gpu=4,
        memory_per_gpu_bytes=16 * GIB,
    )
    return replace(job, asks=asks)


POLICIES = {
    "production": PRODUCTION,
    "without_lending": replace(PRODUCTION, elastic=False, reclaims=False),
    "fair_share": Policy("priority_fair_share", reservations=4, elastic=True, reclaims=True),
    "ours": Policy("size_and_wait", reservations=1, evicts=True, migrates=True),
}


def measure(name: str, node_count: int, job_count: int, gangs: int, rounds: int) -> dict[str, object]:
    snapshot = situation(node_count, job_count, gangs, seed=1)
    if POLICIES[name].elastic:
        snapshot = with_elastic(snapshot)
    times: list[float] = []
    cpu_times: list[float] = []
    made = plan(snapshot, POLICIES[name])
    for _ in range(rounds):
        begun, cpu_begun = time.perf_counter(), time.process_time()
        made = plan(snapshot, POLICIES[name])
        times.append((time.perf_counter() - begun) * 1_000)
        cpu_times.append((time.process_time() - cpu_begun) * 1_000)
    return {
        "policy": name,
        "cluster": "busy" if gangs else "empty",
        "nodes": node_count,
        "running": gangs,
        "pending": job_count,
        "placed": len(made.placements),
        "stopped": len(made.stops),
        "round_ms": round(median(times), 1),
        "cpu_ms": round(median(cpu_times), 1),  # the same on a machine that has other things to do
        "worst_ms": round(max(times), 1),
        "bound_ms": GOAL_MS,
        "ratio": round(median(times) / GOAL_MS, 3),
    }


@click.command()
@click.option("--policy", "name", default="production", type=click.Choice(list(POLICIES)), show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Rounds for each size; the median is told.")
@click.option(
    "--largest", default=2, show_default=True, help="The largest size, as a multiple of 1,250 nodes."
)
@click.option("--plot", type=click.Path(path_type=Path), help="Draw both curves into this SVG file.")
def main(name: str, rounds: int, largest: int, plot: Path | None) -> None:
    """One JSON line for each size: nodes grow at 5,000 jobs, then jobs grow at 1,250 nodes."""
    scales = [scale for scale in (0.125, 0.25, 0.5, 1, 2, 4, 8) if scale <= largest]
    sizes = [(int(1_250 * scale), 5_000) for scale in scales]
    sizes += [(1_250, int(5_000 * scale)) for scale in scales if scale != 1]
    lines = []
    for gangs in (500, 0):
        for nodes, jobs in sizes:
            lines.append(measure(name, nodes, jobs, gangs, rounds))
            print(json.dumps(lines[-1]), flush=True)
    if plot is not None:
        plot.write_text(round_curves.svg(lines))


if __name__ == "__main__":
    main()
