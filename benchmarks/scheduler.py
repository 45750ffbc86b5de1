"""Policies on a recorded trace: `python -m benchmarks.scheduler --trace FILE.csv --nodes 64 --policy all`.

The file has the columns submit_s, gpus, duration_s, and perhaps team, preemptible (yes or no), min_gpus and
checkpoint_s. Each policy drives the platform's own engine through the platform's own simulator and gets one JSON line.
`production` is what the platform starts with: its settings, and teams with quotas, from the column team. `sjf` and
`srtf` are oracles: they know the durations. All others see a user's limit. Nodes stay whole unless the flags of
`benchmarks.scheduler_faults` say otherwise.
"""

from __future__ import annotations

import csv
import json
import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from benchmarks.scheduler_faults import WHOLE, Faults, options
from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, Snapshot, TeamShare
from platform_core.quotas.hierarchy import Hierarchy, Sibling
from platform_core.quotas.recent_use import UseBefore
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.policy import PRODUCTION, Policy
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.report import report
from platform_core.simulation.workload import Departure, Knowledge, Saving, TraceJob

DAY_MS = 86_400_000
UNKNOWN_LIMIT_MS = 7 * DAY_MS


@dataclass(frozen=True, slots=True)
class Contestant:
    policy: Policy
    knowledge: Knowledge = Knowledge.LIMITS
    quotas: bool = False  # do teams have guarantees, and does what they have used count?


CONTESTANTS = {
    "fifo": Contestant(Policy("first_come", skip_ahead=False)),
    "skip": Contestant(Policy("first_come")),
    "easy": Contestant(Policy("first_come", reservations=1)),
    "las": Contestant(Policy("least_attained_service", evicts=True)),
    "las_8h": Contestant(Policy("least_attained_service_8h", evicts=True)),
    "sjf": Contestant(Policy("shortest_remaining", skip_ahead=False), Knowledge.EXACT),
    "srtf": Contestant(Policy("shortest_remaining", evicts=True), Knowledge.EXACT),
    "ours": Contestant(Policy("size_and_wait", reservations=1, evicts=True, migrates=True)),
    "production": Contestant(PRODUCTION, quotas=True),
}


class Stopwatch:
    """The engine with a clock around it, which the simulator must not have."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.rounds = 0

    def __call__(self, snapshot: Snapshot, policy: Policy) -> Decisions:
        begun = time.perf_counter()
        decided = decide(snapshot, policy)
        self.seconds += time.perf_counter() - begun
        self.rounds += 1
        return decided


def cluster_of(nodes: int, gpus_per_node: int) -> list[NodeView]:
    """Racks of 8 nodes and blocks of 16 racks."""
    return [
        NodeView(
            id=f"node-{number:05}",
            hostname=f"n{number}",
            rack=f"rack-{number // 8:04}",
            block=f"block-{number // 128:03}",
            gpu_type="gpu",
            slots=gpus_per_node,
            free_slots=tuple(range(gpus_per_node)),
            state=NodeState.READY,
            labels=(),
            cpus=gpus_per_node,
            memory_bytes=gpus_per_node,
        )
        for number in range(nodes)
    ]


def read_trace(path: Path, window: str, estimates: str, seed: int, speedup: float) -> list[TraceJob]:
    """Jobs submitted in the window of days `A:B`, with their limits drawn in the order of the file."""
    begin, end = (float(day) * 86_400 for day in window.split(":")) if window else (0.0, float("inf"))
    rng = random.Random(seed)
    jobs: list[TraceJob] = []
    with path.open(newline="") as file:
        for number, row in enumerate(csv.DictReader(file)):
            submit, duration_ms = float(row["submit_s"]), max(1, round(float(row["duration_s"]) * 1_000))
            if begin <= submit < end:
                jobs.append(
                    TraceJob(
                        id=f"job-{number:07}",
                        submit_ms=round((submit - begin) * 1_000 / speedup),
                        gpus=int(row["gpus"]),
                        duration_ms=duration_ms,
                        limit_ms=limit_of(duration_ms, estimates, rng),
                        team=row.get("team") or "everyone",
                        preemptible=_is_preemptible(row),
                        min_gpus=int(row.get("min_gpus") or 0),
                        saving=Saving(round(float(row.get("checkpoint_s") or 0) * 1_000)),
                    )
                )
    return jobs


def _is_preemptible(row: Mapping[str, str]) -> bool:
    told = row.get("preemptible") or "yes"
    if told not in ("yes", "no"):
        raise click.UsageError(f"the column preemptible has {told!r}; it must be yes or no")
    return told == "yes"


def limit_of(duration_ms: int, estimates: str, rng: random.Random) -> int:
    if estimates == "none":
        return UNKNOWN_LIMIT_MS
    if estimates == "exact":
        return duration_ms
    low, high = (float(bound) for bound in estimates.removeprefix("factor:").split("-"))
    return round(duration_ms * rng.uniform(low, high))


def quotas_of(jobs: Sequence[TraceJob], slots: int) -> tuple[TeamShare, ...]:
    """Each team is guaranteed its part of the GPU time, in whole slots rounded down; it may borrow all."""
    used = Counter[str]()
    for job in jobs:
        used[job.team] += job.gpus * job.duration_ms
    whole = used.total()
    return tuple(
        TeamShare(team, "gpu", slots * part // whole, slots, 0, 1.0, 0.0)
        for team, part in sorted(used.items())
    )


def nothing_used(shares: Sequence[TeamShare]) -> UseBefore:
    """Weights are as the guarantees, and one for who has none; nobody has used anything yet."""
    weights = {share.team: Sibling(float(max(1, share.guaranteed))) for share in shares}
    return UseBefore(0, Hierarchy({}, weights), {})


def replay(
    name: str, jobs: list[TraceJob], nodes: list[NodeView], departures: Iterable[Departure] = ()
) -> dict[str, object]:
    contestant, watch = CONTESTANTS[name], Stopwatch()
    policy = contestant.policy
    if not contestant.quotas:
        policy = replace(policy, elastic=any(job.min_gpus for job in jobs))
    shares = quotas_of(jobs, sum(node.slots for node in nodes)) if contestant.quotas else ()
    cluster = Cluster(
        nodes, jobs, policy, contestant.knowledge, watch, shares=shares, departures=departures,
        before=nothing_used(shares) if shares else None,
    )  # fmt: skip
    numbers = report(cluster.run())
    each = watch.seconds / watch.rounds if watch.rounds else 0.0
    return {"policy": name, **numbers, "rounds": watch.rounds, "plan_s_per_round": round(each, 6)}


def lines(
    trace: Path,
    nodes: int,
    policies: Iterable[str],
    *,
    gpus_per_node: int = 8,
    window: str = "",
    speedup: float = 1.0,
    estimates: str = "factor:1-5",
    seed: int = 1,
    faults: Faults = WHOLE,
) -> Iterator[dict[str, object]]:
    """What each policy makes of the trace, as it comes."""
    jobs = read_trace(trace, window, estimates, seed, speedup)
    fitting = faults.saving([job for job in jobs if job.gpus <= nodes * gpus_per_node], gpus_per_node)
    about = {
        "trace": trace.stem,
        "window": window,
        "nodes": nodes,
        "estimates": estimates,
        "seed": seed,
        "too_large": len(jobs) - len(fitting),
        **faults.told,
    }
    for name in policies:
        cluster = faults.marked(cluster_of(nodes, gpus_per_node))
        yield {**replay(name, fitting, cluster, faults.departures(cluster, seed)), **about}


@click.command()
@click.option("--trace", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--nodes", default=8, show_default=True)
@click.option("--gpus-per-node", default=8, show_default=True)
@click.option("--window", default="", help="Days A:B of the trace; all by default.")
@click.option("--speedup", default=1.0, show_default=True, help="Arrivals come this much faster.")
@click.option("--policy", "policies", default="all", show_default=True, help=", ".join(CONTESTANTS))
@click.option("--estimates", default="factor:1-5", show_default=True, help="exact, none or factor:LOW-HIGH")
@click.option("--seed", default=1, show_default=True)
@options
def main(
    trace: Path,
    nodes: int,
    gpus_per_node: int,
    window: str,
    speedup: float,
    policies: str,
    estimates: str,
    seed: int,
    faults: Faults,
) -> None:
    """Replay a trace under one policy or all of them."""
    told = lines(
        trace,
        nodes,
        CONTESTANTS if policies == "all" else policies.split(","),
        gpus_per_node=gpus_per_node,
        window=window,
        speedup=speedup,
        estimates=estimates,
        seed=seed,
        faults=faults,
    )
    for line in told:
        print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
