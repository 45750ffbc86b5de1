"""Each rule of the engine matters: with the rule switched off, the judge of `rules.py` sees the harm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView, Snapshot
from platform_core.jobs.constraints import Constraints
from platform_core.scheduling.engine import plan
from platform_core.scheduling.placement import cluster_view as cluster
from platform_core.scheduling.placement import search as placement
from platform_core.scheduling.placement.node_index import Demand, NodeIndex, SlotCounts
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.reservations.quota_ledger import QuotaLedger
from platform_core.scheduling.state.round_state import RoundState
from tests.core.scheduling.rules import violations
from tests.core.scheduling.situations import GIB, NOW_MS, node, pending, snapshot, team

Patch = Callable[[pytest.MonkeyPatch], None]


def replacing(owner: Any, name: str, value: Any) -> Patch:
    return lambda monkeypatch: monkeypatch.setattr(owner, name, value)


def _any_node_of_type(index: NodeIndex, demand: Demand) -> int:
    return index.of_type(demand.gpu_type)


def _any_node(index: NodeIndex, demand: Demand) -> int:
    return (1 << len(index.nodes)) - 1


def _any_candidates(index: NodeIndex, candidates: int, wanted: int) -> list[tuple[int, int]]:
    return [(candidates, wanted)]


def _most_nodes_first(gpus: int, most_slots: int) -> tuple[int, ...]:
    return tuple(count for count in range(gpus, 0, -1) if gpus % count == 0)


def _rounded_parts(gpus: int, most_slots: int) -> tuple[int, ...]:
    return tuple(range(1, gpus + 1))


_place_job = RoundState.place_job


def _place_without_counting(state: Any, job: Any, place: Any) -> Any:
    untouched = list(state._slots)
    placement = _place_job(state, job, place)
    state._slots = untouched
    return placement


TWO_RACKS = [
    node("a", slots=2, rack="r1"),
    node("b", slots=2, rack="r2"),
    node("c", slots=2, rack="r2"),
]
RULES: dict[str, tuple[Patch, Snapshot, str]] = {
    "quota": (
        replacing(QuotaLedger, "allows", lambda *_: True),
        snapshot([node("a")], [pending("x", 4)], teams=[team(maximum=3)]),
        "quota exceeded",
    ),
    "quota used up within the round": (
        replacing(QuotaLedger, "take", lambda *_: None),
        snapshot([node("a")], [pending("x", 4), pending("y", 4)], teams=[team(maximum=4)]),
        "quota exceeded",
    ),
    "only ready nodes": (
        replacing(NodeView, "takes_work", property(lambda node: True)),
        snapshot([node("a", state=NodeState.SUSPECT)], [pending("x", 1)]),
        "node not ready",
    ),
    "excluded nodes": (
        replacing(NodeIndex, "eligible", NodeIndex.large_enough),
        snapshot([node("a"), node("b")], [pending("x", 1, excluded=["a"])]),
        "excluded node",
    ),
    "required labels": (
        replacing(NodeIndex, "admitting", lambda index, wanted: index.all),
        snapshot([node("a")], [pending("x", 1, constraints=Constraints(labels=(("nvlink", "yes"),)))]),
        "label missing",
    ),
    "taints": (
        replacing(NodeIndex, "admitting", lambda index, wanted: index.all),
        snapshot([node("a", taints=["lab"])], [pending("x", 1)]),
        "taint not tolerated",
    ),
    "nodes that the job excludes": (
        replacing(NodeIndex, "admitting", lambda index, wanted: index.all),
        snapshot([node("a")], [pending("x", 1, constraints=Constraints(excluded_nodes=("a",)))]),
        "unwanted node",
    ),
    "most racks": (
        replacing(cluster, "find_place", lambda *given: placement.find_place(*given[:5])),
        snapshot(TWO_RACKS[:2], [pending("x", 4, constraints=Constraints(max_racks=1))]),
        "too many racks",
    ),
    "maintenance": (
        replacing(cluster.ClusterView, "closed", lambda *_: 0),
        snapshot([node("a", windows=[(NOW_MS + 60_000, NOW_MS + 120_000)])], [pending("x", 1)]),
        "reaches into maintenance",
    ),
    "gpu type": (
        replacing(NodeIndex, "eligible", _any_node),
        snapshot([node("a", gpu_type="cpu"), node("b")], [pending("x", 1)]),
        "wrong gpu type",
    ),
    "cpus of the node": (
        replacing(NodeIndex, "large_enough", _any_node_of_type),
        snapshot([node("a", cpus=8)], [pending("x", 1, cpus_per_gpu=2)]),
        "too few cpus",
    ),
    "memory of the node": (
        replacing(NodeIndex, "large_enough", _any_node_of_type),
        snapshot([node("a", memory_bytes=8 * GIB)], [pending("x", 1, memory_per_gpu_bytes=2 * GIB)]),
        "too little memory",
    ),
    "equal parts": (
        replacing(cluster, "equal_splits", _rounded_parts),
        snapshot([node("a", slots=2), node("b", slots=1)], [pending("x", 3)]),
        "gang not whole",
    ),
    "fewest nodes": (
        replacing(cluster, "equal_splits", _most_nodes_first),
        snapshot(TWO_RACKS, [pending("x", 2)]),
        "more nodes than needed",
    ),
    "nearest nodes": (
        replacing(placement, "_nearest", _any_candidates),
        snapshot(TWO_RACKS, [pending("x", 4)]),
        "farther apart than needed",
    ),
    "slots used up within the round": (
        replacing(RoundState, "place_job", _place_without_counting),
        snapshot([node("a")], [pending("x", 4), pending("y", 4)]),
        "slot given twice",
    ),
    "free counts used up within the round": (
        replacing(SlotCounts, "take", lambda *_: None),
        snapshot([node("a", slots=4), node("b")], [pending("x", 4), pending("y", 4)]),
        "gang not whole",
    ),
    "later jobs may pass": (
        lambda monkeypatch: monkeypatch.setattr(
            Policy.__init__, "__defaults__", ("priority_fair_share", False, *Policy.__init__.__defaults__[2:])
        ),
        snapshot([node("a", slots=4)], [pending("x", 8), pending("y", 4)]),
        "passed over though it fitted",
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_dropped_rule_is_seen(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drop, situation, harm = RULES[rule]
    assert violations(situation, plan(situation)) == set()
    drop(monkeypatch)
    assert harm in violations(situation, plan(situation))
