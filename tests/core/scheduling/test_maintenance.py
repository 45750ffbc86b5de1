"""Booked maintenance: who may still start, who is told to wait, and where places are kept."""

from __future__ import annotations

from platform_core.scheduling.decisions import WaitCode
from platform_core.scheduling.engine import decide, plan, reserve_places
from platform_core.scheduling.forecast.start_times import forecast
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot

HOUR_MS = 60 * MINUTE_MS
WINDOW = (NOW_MS + 2 * HOUR_MS, NOW_MS + 3 * HOUR_MS)


def test_only_a_job_that_ends_before_may_start_there() -> None:
    nodes = [node("a", windows=[WINDOW])]
    queue = [
        pending("long", 4, max_runtime_ms=2 * HOUR_MS + 1),
        pending("short", 4, max_runtime_ms=2 * HOUR_MS),
    ]
    made = plan(snapshot(nodes, queue))
    assert [placement.job_id for placement in made.placements] == ["job-short"]
    (wait,) = made.waits
    assert (wait.code, dict(wait.numbers)["begins_ms"]) == (WaitCode.MAINTENANCE, WINDOW[0])
    assert wait.sentence.startswith(
        "needs 4 GPUs of a100; maintenance of a begins in 2 h, and its time limit is 2 h"
    )


def test_a_long_job_goes_to_a_node_without_maintenance_though_it_fits_less_tightly() -> None:
    nodes = [node("a", free=4, windows=[WINDOW]), node("b")]
    made = plan(snapshot(nodes, [pending("long", 4, max_runtime_ms=5 * HOUR_MS)]))
    assert made.placements[0].members[0].node == "node-b"


def test_the_place_of_a_long_job_is_kept_from_the_end_of_the_maintenance_on() -> None:
    long = pending("long", 8, max_runtime_ms=5 * HOUR_MS)
    situation = snapshot([node("a", windows=[WINDOW])], [long])
    policy = Policy(reservations=1)
    (kept,) = reserve_places(decide(situation, policy), policy)
    assert kept.start_ms == WINDOW[1]
    (told,) = forecast(situation, Policy(reservations=1), percent_used=100)
    assert told.early_ms == WINDOW[1]


def test_maintenance_that_is_over_closes_nothing() -> None:
    nodes = [node("a", windows=[(NOW_MS - HOUR_MS, NOW_MS)])]
    assert plan(snapshot(nodes, [pending("long", 8, max_runtime_ms=5 * HOUR_MS)])).placements


def test_nobody_is_stopped_for_a_job_that_could_not_end_before_the_maintenance() -> None:
    held = [running("longest", {"a": range(8)}, expected_end_ms=NOW_MS + 50 * HOUR_MS)]
    policy = Policy("shortest_remaining", evicts=True)
    for limit_h, stopped in ((3, ()), (2, ("job-longest",))):
        asks = pending("short", 8, max_runtime_ms=limit_h * HOUR_MS)
        situation = snapshot([node("a", free=0, windows=[WINDOW])], [asks], held=held)
        assert plan(situation, policy).preemptions == stopped
