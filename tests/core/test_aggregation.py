"""Aggregation: the staleness bound holds in every history, keys are shared out evenly, costs are those of the links."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.aggregation.cost import Way, Workers, cost
from platform_core.aggregation.gate import Gate
from platform_core.aggregation.histories import Update, most_stale, staleness, violation
from platform_core.aggregation.sharding import shards


def history(bound: int | None, workers: int, choices: list[int]) -> list[Update]:
    """Workers begin and end steps in the order that the choices make, as far as the gate lets them."""
    gate, version, read, updates = Gate(bound), 0, dict[str, int](), list[Update]()
    names = [f"w{number}" for number in range(workers)]
    for name in names:
        gate = gate.joined(name)
    for choice in choices:
        name = names[choice % workers]
        if name in read:
            version += 1
            updates.append(Update(name, gate.clocks[name], read.pop(name), version))
            gate = gate.finished(name)
        elif gate.may_begin(name):
            read[name] = version
    return updates


@given(st.integers(0, 3), st.integers(1, 5), st.lists(st.integers(0, 99), max_size=200))
def test_the_bound_holds_in_every_history(bound: int, workers: int, choices: list[int]) -> None:
    updates = history(bound, workers, choices)
    assert violation(updates, workers, bound) == ""
    clocks: Counter[str] = Counter({f"w{number}": 0 for number in range(workers)})
    for update in updates:
        clocks[update.worker] += 1
        assert max(clocks.values()) - min(clocks.values()) <= bound + 1
        assert update.staleness <= most_stale(workers, bound)


@settings(max_examples=30)
@given(st.integers(0, 3), st.integers(2, 4))
def test_a_worker_that_stands_still_lets_others_go_no_further_than_the_bound(
    bound: int, workers: int
) -> None:
    updates = history(bound, workers, [*range(1, workers)] * 40)
    assert max(Counter(update.worker for update in updates).values()) == bound + 1
    assert len(history(None, workers, [*range(1, workers)] * 40)) > len(updates)


def test_a_history_beyond_the_bound_is_seen() -> None:
    ahead = [Update("a", 0, 0, 1), Update("b", 0, 1, 2), Update("a", 1, 2, 3), Update("a", 2, 3, 4)]
    assert "a was 1 steps ahead" in violation(ahead, 2, 0)
    assert "missed 3 updates" in violation([Update("a", 0, 0, 4), Update("b", 0, 0, 5)], 2, 0)
    assert staleness(ahead) == {0: 4}


@given(st.lists(st.sampled_from(["join", "leave", "finish"]), max_size=60), st.data())
def test_workers_that_come_and_go_never_block_the_others(events: list[str], data: st.DataObject) -> None:
    gate = Gate(1)
    for number, event in enumerate(events):
        if event == "join":
            gate = gate.joined(f"w{number}")
        elif gate.clocks:
            name = data.draw(st.sampled_from(sorted(gate.clocks)))
            if event == "leave":
                gate = gate.left(name)
            elif gate.may_begin(name):
                gate = gate.finished(name)
        assert not gate.clocks or any(map(gate.may_begin, gate.clocks))


def test_a_step_beyond_the_gate_and_a_bad_bound_are_refused() -> None:
    gate = Gate(0).joined("a").joined("b").finished("a")
    with pytest.raises(ValueError, match="1 steps ahead"):
        gate.finished("a")
    with pytest.raises(ValueError, match="at least 0"):
        Gate(-1)


@given(st.dictionaries(st.text(max_size=3), st.integers(0, 10**6), min_size=1), st.integers(1, 6))
def test_no_server_has_more_than_its_share_and_the_largest_key(sizes: dict[str, int], servers: int) -> None:
    place = shards(sizes, servers)
    held = Counter(dict.fromkeys(range(servers), 0))
    for key, server in place.items():
        held[server] += sizes[key]
    assert set(place) == set(sizes)
    assert max(held.values()) <= sum(sizes.values()) / servers + max(sizes.values())


def test_no_server_keeps_no_parameters() -> None:
    with pytest.raises(ValueError, match="at least one"):
        shards({"a": 1}, 0)


def test_costs_follow_from_links_and_from_the_slowest_worker() -> None:
    """Four workers of 0.1 s, one of them of 0.3 s; 10 MB over 100 MB/s."""
    workers = Workers((0.1, 0.1, 0.1, 0.3), 100e6)
    ring = cost(Way.ALL_REDUCE, workers, 10_000_000)
    assert ring.seconds == pytest.approx(0.3)  # 0.15 s of it pass while the slowest goes backward
    thin = cost(Way.ALL_REDUCE, Workers((0.1,) * 4, 50e6), 10_000_000)
    assert thin.seconds == pytest.approx(0.1 + 0.3 - 0.1 * 2 / 3)
    assert thin.limited_by == "communication"
    assert ring.bytes_moved == pytest.approx(4 * 2 * 15_000_000)
    assert ring.limited_by == "the slowest worker"
    assert cost(Way.LOCAL, workers, 10_000_000, every=10).seconds == pytest.approx(0.3 + 0.015)
    together = cost(Way.SYNCHRONOUS, workers, 10_000_000)
    assert together.seconds == pytest.approx(0.1 + 4 * 0.1 + 4 * 0.1)  # three push before the slowest is done
    assert together.limited_by == "communication"
    assert cost(Way.SYNCHRONOUS, Workers((0.1,) * 4, 100e6, servers=4), 10_000_000).seconds == pytest.approx(
        0.3
    )
    assert cost(Way.BOUNDED, workers, 10_000_000).seconds == pytest.approx(0.5)
    alone = cost(Way.ASYNCHRONOUS, workers, 10_000_000)
    assert alone.limited_by == "the link of the servers"
    assert alone.seconds == pytest.approx(0.4)
    free = cost(Way.ASYNCHRONOUS, Workers((0.1, 0.1, 0.1, 0.3), 1e12), 10_000_000)
    assert free.seconds == pytest.approx(4 / (3 / 0.1 + 1 / 0.3), rel=1e-3)
    smaller = cost(Way.ASYNCHRONOUS, workers, 10_000_000, ratio=0.02)
    assert smaller.bytes_moved == pytest.approx(4 * 10_200_000)
