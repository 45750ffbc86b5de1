"""Replay of the same jobs under other circumstances: more nodes, other quotas or another policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from platform_core.cluster.snapshot import NodeView, TeamShare
from platform_core.quotas.recent_use import UseBefore
from platform_core.scheduling.policy import Policy
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.report import report
from platform_core.simulation.workload import TraceJob


@dataclass(frozen=True, slots=True)
class Circumstances:
    """All nodes are of one type of GPU; a team without a share can start nothing."""

    nodes: tuple[NodeView, ...]
    shares: tuple[TeamShare, ...]
    policy: Policy
    before: UseBefore | None = None  # with what the use of late begins; without it, it does not count


@dataclass(frozen=True, slots=True)
class Course:
    """GPUs held and waited for after each round: columns of equal length."""

    at_ms: tuple[int, ...]
    held: tuple[int, ...]
    waiting: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class History:
    report: dict[str, object]  # see platform_core.simulation.report
    never_started: tuple[str, ...]
    course: Course


def play(jobs: Sequence[TraceJob], circumstances: Circumstances) -> History:
    """Play from an empty cluster until no event is left. Nodes that accept no jobs are left out."""
    rounds: list[tuple[int, int, int]] = []
    nodes = [node for node in circumstances.nodes if node.takes_work]
    cluster = Cluster(
        nodes,
        jobs,
        circumstances.policy,
        shares=circumstances.shares,
        before=circumstances.before,
        watch=lambda at_ms, held, waiting: rounds.append((at_ms, held, waiting)),
    )
    ledger = cluster.play()
    at_ms, held, waiting = zip(*rounds, strict=True) if rounds else ((), (), ())
    return History(report(ledger), cluster.never_started, Course(at_ms, held, waiting))
