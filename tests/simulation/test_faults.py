"""Nodes that fail or are taken away, short enough to follow by hand: when it is noticed, what is lost, who goes on."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count, pairwise, takewhile

import pytest

from platform_core.cluster.snapshot import NodeView, Snapshot
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.policy import Policy
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.faults import Rates, departures
from platform_core.simulation.ledger import Ledger
from platform_core.simulation.workload import Departure, Knowledge, Saving, TraceJob
from platform_core.units import DAY_MS
from tests.core.scheduling.situations import node

SKIP = Policy("first_come")
SRTF = Policy("shortest_remaining", evicts=True)
EVERY_MINUTE = Saving(every_ms=60_000)


def job(name: str, gpus: int, duration_s: int, saving: Saving = EVERY_MINUTE, *, at_s: int = 0) -> TraceJob:
    return TraceJob(name, at_s * 1_000, gpus, duration_s * 1_000, duration_s * 2_000, saving=saving)


def fails(at_s: int, back_s: int | None, name: str = "n0") -> Departure:
    return Departure(f"node-{name}", at_s * 1_000, 0, None if back_s is None else back_s * 1_000)


def noticed(at_s: int, notice_s: int, back_s: int, name: str = "n0") -> Departure:
    return Departure(f"node-{name}", at_s * 1_000, notice_s * 1_000, back_s * 1_000)


def cluster(*slots: int) -> list[NodeView]:
    return [node(f"n{number}", slots=each) for number, each in enumerate(slots)]


def played(
    nodes: list[NodeView], jobs: Iterable[TraceJob], gone: Iterable[Departure], policy: Policy = SKIP
) -> Ledger:
    return Cluster(nodes, list(jobs), policy, Knowledge.EXACT, departures=gone).run()


def ends(ledger: Ledger) -> dict[str, float]:
    """Second at which each job ends."""
    return {each.job.id: each.ended_ms / 1_000 for each in ledger.outcomes}


def test_only_the_work_since_the_last_save_is_done_again() -> None:
    ledger = played(cluster(8), [job("a", 8, 300)], [fails(100, 500)])
    assert ends(ledger) == {"a": 500 + 30 + 240}
    assert ledger.lost_gpu_ms == 8 * (130 - 60 + 30) * 1_000
    assert (ledger.restarts, ledger.node_failures, ledger.failed) == (1, 1, [])


def test_a_save_that_takes_time_is_waited_for_each_time() -> None:
    slow = replace(EVERY_MINUTE, takes_ms=10_000)
    assert ends(played(cluster(8), [job("a", 8, 300, slow)], [])) == {"a": 300 + 4 * 10}
    assert ends(played(cluster(8), [job("a", 8, 300, slow)], [fails(100, 500)])) == {
        "a": 500 + 30 + 240 + 3 * 10
    }


def test_a_save_that_is_cut_off_counts_for_nothing() -> None:
    slow = replace(EVERY_MINUTE, takes_ms=10_000)
    assert ends(played(cluster(8), [job("a", 8, 300, slow)], [fails(65, 500)])) == {
        "a": 500 + 30 + 300 + 4 * 10
    }


def test_a_gang_waits_until_the_silence_is_noticed_and_goes_on_elsewhere() -> None:
    """Lost after 30 s; those that hang with it are killed 10 s later, and then it starts on the third node."""
    ledger = played(cluster(4, 4, 4), [job("a", 8, 300)], [fails(100, None)])
    assert ends(ledger) == {"a": 100 + 30 + 10 + 30 + 240}


def test_what_ran_on_a_node_that_is_back_before_anybody_noticed_is_gone() -> None:
    ledger = played(cluster(8), [job("a", 8, 300)], [fails(100, 105)])
    assert ends(ledger) == {"a": 105 + 30 + 240}


def test_a_job_that_was_given_a_dead_node_begins_when_it_is_back() -> None:
    ledger = played(cluster(8), [job("a", 8, 300, at_s=102)], [fails(100, 115)])
    assert ends(ledger) == {"a": 415}
    assert ledger.restarts == 0


def test_a_job_that_was_given_a_dead_node_is_lost_with_it() -> None:
    ledger = played(cluster(8), [job("a", 8, 300, at_s=102)], [fails(100, 200)])
    assert ends(ledger) == {"a": 200 + 30 + 300}
    assert ledger.restarts == 1


def test_two_failures_on_a_node_and_the_job_avoids_it() -> None:
    seen: list[str] = []

    def watched(snapshot: Snapshot, policy: Policy) -> Decisions:
        decided = decide(snapshot, policy)
        seen.extend(seat.node for _, placement in decided.started for seat in placement.members)
        return decided

    twice = [fails(100, 105), fails(300, 305)]
    Cluster(cluster(4, 8), [job("a", 4, 1_000)], SKIP, decider=watched, departures=twice).run()
    assert seen == ["node-n0", "node-n0", "node-n1"]


def test_after_ten_restarts_the_job_is_given_up_and_the_next_one_starts_in_its_first_pause() -> None:
    never = Saving(when_stopped=False)
    eleven = [fails(at_s, at_s + 5) for at_s in range(500, 6_000, 500)]
    ledger = played(cluster(8), [job("a", 8, 1_000, never), job("b", 8, 50, at_s=10)], eleven)
    assert (ledger.failed, ledger.restarts) == (["a"], 10)
    assert ends(ledger) == {"b": 1_055}


def test_whoever_is_stopped_keeps_its_slots_until_it_has_saved() -> None:
    slow = Saving(takes_ms=20_000)
    jobs = [job("long", 8, 1_000, slow), job("short", 8, 10, at_s=100)]
    assert ends(played(cluster(8), jobs, [], SRTF)) == {"short": 130, "long": 130 + 30 + 900}


def test_whoever_has_just_begun_is_stopped_as_soon_as_it_has_run_for_long_enough() -> None:
    """Not only when something else happens."""
    jobs = [job("long", 8, 1_000), job("short", 8, 10, at_s=100)]
    patient = replace(SRTF, least_run_ms=300_000)
    assert ends(played(cluster(8), jobs, [], patient)) == {"short": 310, "long": 310 + 30 + 700}


def test_a_save_that_takes_longer_than_the_grace_is_killed() -> None:
    slow = Saving(takes_ms=61_000)
    jobs = [job("long", 8, 1_000, slow), job("short", 8, 10, at_s=100)]
    ledger = played(cluster(8), jobs, [], SRTF)
    assert ends(ledger) == {"short": 170, "long": 170 + 30 + 1_000}
    assert ledger.lost_gpu_ms == 8 * (160 + 30) * 1_000


def test_a_save_that_is_under_way_when_the_job_is_stopped_is_finished() -> None:
    slow = Saving(every_ms=90_000, takes_ms=20_000, when_stopped=False)
    jobs = [job("long", 8, 1_000, slow), job("short", 8, 10, at_s=100)]
    assert ends(played(cluster(8), jobs, [], SRTF))["short"] == 120


def test_a_notice_is_long_enough_to_save_or_it_is_not() -> None:
    slow = Saving(takes_ms=20_000)
    assert ends(played(cluster(8), [job("a", 8, 300, slow)], [noticed(100, 120, 500)])) == {"a": 730}
    assert ends(played(cluster(8), [job("a", 8, 300, slow)], [noticed(100, 10, 500)])) == {"a": 830}


def test_who_may_not_be_stopped_does_not_go_to_spot_nodes() -> None:
    nodes = [replace(each, taints=("spot",)) for each in cluster(8)] + [node("n1", slots=8)]
    jobs = [job("a", 8, 100), replace(job("b", 8, 100), preemptible=False)]
    assert ends(played(nodes, jobs, [])) == {"a": 100, "b": 100}
    assert ends(played(nodes[:1], jobs[:1], [])) == {"a": 100}
    with pytest.raises(RuntimeError, match="can never start, the first are b"):
        played(nodes[:1], jobs[1:], [])


def endless() -> Iterator[Departure]:
    for number in count(1):
        yield fails(number * 1_000, number * 1_000 + 500)


def test_nodes_that_fail_for_ever_end_with_the_last_job_that_can_start() -> None:
    jobs = [job("a", 8, 300), job("huge", 9, 1)]
    played_ = Cluster(cluster(8), jobs, SKIP, departures=endless())
    assert ends(played_.play()) == {"a": 300}
    assert played_.never_started == ("huge",)


def test_a_job_that_can_never_save_before_its_node_goes_does_not_keep_the_history_for_ever() -> None:
    too_slow, notices = Saving(takes_ms=121_000), (noticed(at_s, 120, at_s + 200) for at_s in count(300, 300))
    with pytest.raises(RuntimeError, match="a was stopped 1000 times and has saved nothing"):
        played(cluster(8), [job("a", 8, 3_600, too_slow)], notices)


def drawn(rates: Rates, nodes: list[NodeView], seed: int = 1) -> list[Departure]:
    """Of a hundred days."""
    endless = departures(nodes, rates, lambda name: random.Random(f"{seed} {name}").random)
    return list(takewhile(lambda each: each.at_ms < 100 * DAY_MS, endless))


def test_nodes_go_as_often_as_was_said_and_only_spot_nodes_with_a_notice() -> None:
    nodes = [replace(each, labels=(("spot", "yes"),)) for each in cluster(*[8] * 10)]
    nodes += [node(f"m{number}") for number in range(10)]
    gone = drawn(Rates(failures_per_day=1, notices_per_day=2, repair_ms=0), nodes)
    told = Counter((each.node.startswith("node-n"), each.notice_ms) for each in gone)
    assert told.keys() == {(True, 0), (True, 120_000), (False, 0)}
    for kind, expected in (((True, 0), 1_000), ((True, 120_000), 2_000), ((False, 0), 1_000)):
        assert abs(told[kind] - expected) < 0.1 * expected


def test_each_node_goes_again_only_when_it_is_back_and_all_in_order_of_time() -> None:
    gone = drawn(Rates(failures_per_day=5), cluster(8, 8, 8))
    assert [each.at_ms for each in gone] == sorted(each.at_ms for each in gone)
    for name in ("node-n0", "node-n1", "node-n2"):
        own = [each for each in gone if each.node == name]
        assert all((one.back_ms or 0) <= other.at_ms for one, other in pairwise(own))
    assert drawn(Rates(), cluster(8)) == []


def test_another_node_does_not_change_when_the_others_fail() -> None:
    rates = Rates(failures_per_day=1)
    few, more = drawn(rates, cluster(8)), drawn(rates, cluster(8, 8))
    assert few == [each for each in more if each.node == "node-n0"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"failures_per_day": -1.0}, "-1.0 failures a day"),
        ({"notices_per_day": float("nan")}, "nan notices a day"),
        ({"notice_ms": 0}, "a notice comes 0 ms before"),
        ({"repair_ms": -1}, "repair takes -1 ms"),
    ],
)
def test_rates_that_cannot_be_are_refused(wrong: dict[str, float], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        Rates(**wrong)  # type: ignore[arg-type]
