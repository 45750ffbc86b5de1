"""What starting a job again is taken to cost, and whom that spares."""

from __future__ import annotations

from dataclasses import replace

import pytest

from platform_core.cluster.snapshot import RunningJob
from platform_core.scheduling.engine import plan
from platform_core.scheduling.estimates import lost_by_stopping_ms
from platform_core.scheduling.policy import Policy
from platform_core.scheduling.restarts import RESUME_MS, restart_ms, size_class
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

EVICTING = Policy(evicts=True)
RECLAIMING = Policy(reclaims=True)


def saved_a_minute_ago(name: str, on: str, restart: int | None) -> RunningJob:
    job = running(name, {on: range(8)}, priority=90, started_ms=NOW_MS - 60 * MINUTE_MS, team="nlp")
    return replace(job, last_checkpoint_ms=NOW_MS - MINUTE_MS, restart_ms=restart)


@pytest.mark.parametrize(
    ("own", "alike", "first", "told"),
    [
        ((300, 20, 40), (7,), 900, 40),
        ((), (50, 30, 10), None, 30),
        ((), (50, 30, 10), 20, 30),
        ((), (50, 30, 10), 45, 45),
        ((), (), 5 * MINUTE_MS, 5 * MINUTE_MS),
        ((), (), 1_000, RESUME_MS),
        ((), (), None, None),
    ],
)
def test_its_own_restarts_count_then_those_of_its_class_and_never_less_than_its_first_start(
    own: tuple[int, ...], alike: tuple[int, ...], first: int | None, told: int | None
) -> None:
    assert restart_ms(own, alike, first) == told


def test_one_process_one_node_and_many_that_must_meet_are_apart() -> None:
    assert [size_class(gpus) for gpus in (1, 2, 8, 9, 512)] == [0, 1, 1, 2, 2]


def test_the_flat_figure_counts_only_where_nothing_was_measured() -> None:
    for measured, counted in [(None, RESUME_MS), (0, 0), (7_000, 7_000), (10 * MINUTE_MS, 10 * MINUTE_MS)]:
        job = saved_a_minute_ago("a", "a", measured)
        assert lost_by_stopping_ms(job, NOW_MS) == counted + MINUTE_MS
        assert lost_by_stopping_ms(replace(job, saves_when_stopped=True), NOW_MS) == counted


@pytest.mark.parametrize("policy", [EVICTING, RECLAIMING])
@pytest.mark.parametrize(("slow", "quick"), [("a", "b"), ("b", "a")])
def test_of_two_that_would_lose_as_much_work_the_one_that_starts_quicker_is_stopped(
    policy: Policy, slow: str, quick: str
) -> None:
    held = [
        saved_a_minute_ago(slow, slow, 10 * MINUTE_MS),
        saved_a_minute_ago(quick, quick, 5_000),
    ]
    teams = [team(guaranteed=8, maximum=8), team("nlp", maximum=16, used=16)]
    queue = [pending("urgent", 8, priority=0)]
    situation = snapshot([node("a", free=0), node("b", free=0)], queue, held=held, teams=teams)
    (stop,) = plan(situation, policy).stops
    assert (stop.job_id, stop.lost_gpu_ms) == (f"job-{quick}", 8 * (MINUTE_MS + 5_000))


def test_one_that_is_dear_to_start_is_worth_more_than_one_that_has_more_unsaved_work() -> None:
    held = [
        replace(saved_a_minute_ago("dear", "a", 20 * MINUTE_MS), last_checkpoint_ms=NOW_MS),
        replace(saved_a_minute_ago("cheap", "b", 5_000), last_checkpoint_ms=NOW_MS - 10 * MINUTE_MS),
    ]
    queue = [pending("urgent", 8, priority=0)]
    situation = snapshot([node("a", free=0), node("b", free=0)], queue, held=held)
    assert plan(situation, EVICTING).preemptions == ("job-cheap",)


@pytest.mark.parametrize("names", [("dear", "cheap", "middling"), ("middling", "dear", "cheap")])
def test_of_equals_those_who_lose_least_stop_whoever_came_last(names: tuple[str, ...]) -> None:
    restarts = {"dear": 20 * MINUTE_MS, "middling": 2 * MINUTE_MS, "cheap": 5_000}
    held = [
        replace(saved_a_minute_ago(name, name, restarts[name]), submitted_ms=number)
        for number, name in enumerate(names)
    ]
    queue = [pending("one", 8, priority=0), pending("two", 8, priority=0)]
    situation = snapshot([node(name, free=0) for name in names], queue, held=held)
    assert set(plan(situation, EVICTING).preemptions) == {"job-cheap", "job-middling"}


def test_the_less_urgent_is_stopped_before_the_cheaper() -> None:
    held = [
        replace(saved_a_minute_ago("patient", "a", 20 * MINUTE_MS), priority=95),
        saved_a_minute_ago("cheap", "b", 5_000),
    ]
    queue = [pending("urgent", 8, priority=0)]
    situation = snapshot([node("a", free=0), node("b", free=0)], queue, held=held)
    assert plan(situation, EVICTING).preemptions == ("job-patient",)
