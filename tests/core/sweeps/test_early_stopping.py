"""Which trials go on, by rule; and that a sweep ends however its last trial does."""

import math

import pytest

from platform_core.sweeps import states as ev
from platform_core.sweeps.states import SweepState, TrialState
from platform_core.sweeps.stopping import bracket, next_rung, reached
from platform_core.sweeps.transitions import best
from tests.core.sweeps.situations import after, spec, sweep


def begun(number: int) -> list[ev.SweepEvent]:
    return [
        ev.Proposed(at_ms=0, number=number, parameters=(("lr", 0.01),)),
        ev.TrialSubmitted(at_ms=0, number=number, job=f"job-{number}"),
    ]


def report(number: int, step: int, value: float) -> ev.TrialReported:
    return ev.TrialReported(at_ms=0, number=number, reports=((step, value),))


def states(value: ev.Sweep) -> list[str]:
    return [trial.state for trial in value.trials]


def test_asha_keeps_the_best_of_a_rung() -> None:
    value = sweep(early_stopping={"rule": "asha", "min_steps": 1, "eta": 2}, parallel=4)
    for number, loss in ((1, 3.0), (2, 2.0), (3, 2.5), (4, 1.0)):
        value = after(value, *begun(number), report(number, 1, loss))
    assert states(value) == ["running", "running", "pruned", "running"]


def test_a_value_that_is_no_number_is_pruned() -> None:
    value = after(sweep(early_stopping={"rule": "asha", "min_steps": 1}), *begun(1), report(1, 1, math.nan))
    assert value.trials[0].reason == "its loss at step 1 is not a number"


def test_the_goal_turns_the_order_around() -> None:
    stopping = {"rule": "asha", "min_steps": 1, "eta": 2}
    value = sweep(early_stopping=stopping, objective={"metric": "accuracy", "goal": "maximize"})
    value = after(value, *begun(1), report(1, 1, 0.9), *begun(2), report(2, 1, 0.8))
    assert states(value) == ["running", "pruned"]


def test_the_median_prunes_what_is_worse_once_enough_trials_are_there() -> None:
    stopping = {"rule": "median", "min_steps": 2, "interval_steps": 2, "startup_trials": 2}
    value = sweep(early_stopping=stopping, parallel=4)
    for number, loss in ((1, 1.0), (2, 2.0), (3, 5.0), (4, 1.5)):
        value = after(value, *begun(number), report(number, 2, loss))
    assert states(value) == ["running", "running", "pruned", "running"]


def test_rungs_are_eta_times_as_far_and_end_before_the_last_step() -> None:
    stopping = spec(early_stopping={"rule": "asha", "min_steps": 3, "max_steps": 81, "eta": 3}).stopping
    assert [next_rung(stopping, 1, step) for step in (0, 3, 9, 27)] == [3, 9, 27, None]
    assert reached(stopping, 1, 0, [(2, 1.0), (4, 0.5), (30, 0.25)]) == [(3, 0.5), (9, 0.25), (27, 0.25)]


def test_hyperband_spreads_trials_over_brackets() -> None:
    stopping = spec(early_stopping={"rule": "hyperband", "min_steps": 1, "max_steps": 27, "eta": 3}).stopping
    counts = [[bracket(stopping, number) for number in range(1, 201)].count(index) for index in range(4)]
    assert counts[0] > counts[1] > counts[2]
    assert min(counts) > 0


@pytest.mark.parametrize("paused", [False, True])
def test_a_sweep_without_jobs_finishes_when_its_last_trial_is_pruned(paused: bool) -> None:
    value = sweep(job=None, budget={"trials": 2}, early_stopping={"rule": "asha", "min_steps": 1, "eta": 2})
    for number in (1, 2):
        value = after(value, *[event for event in begun(number) if isinstance(event, ev.Proposed)])
        value = after(value, ev.TrialSubmitted(at_ms=0, number=number, job=""))
    ended = ev.TrialEnded(at_ms=0, number=1, outcome=TrialState.SUCCEEDED, value=1.0)
    value = after(value, report(1, 1, 1.0), ended)
    if paused:
        value = after(value, ev.PauseRequested(at_ms=0, actor="user:alice"))
    value = after(value, report(2, 1, 2.0))
    assert value.state is SweepState.FINISHED
    winner = best(value)
    assert winner is not None
    assert winner.number == 1
