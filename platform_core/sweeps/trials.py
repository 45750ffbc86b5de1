"""The trials of a sweep: one table, and what each event makes of the trial that it names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from platform_core.errors import IllegalTransition
from platform_core.sweeps import states as ev
from platform_core.sweeps.states import Event, Sweep, Trial
from platform_core.sweeps.states import TrialState as _T
from platform_core.sweeps.stopping import verdict

# What an event may make of its trial. A pair that is not here is old news and changes nothing.
TRIAL_TRANSITIONS: dict[tuple[_T, type[Event]], frozenset[_T]] = {
    (_T.PROPOSED, ev.TrialSubmitted): frozenset({_T.SUBMITTED}),
    (_T.PROPOSED, ev.TrialRefused): frozenset({_T.PROPOSED}),
    (_T.PROPOSED, ev.CancelRequested): frozenset({_T.CANCELLED}),
    (_T.PROPOSED, ev.TimePassed): frozenset({_T.CANCELLED}),
    (_T.CANCELLED, ev.TrialSubmitted): frozenset({_T.CANCELLED}),  # the submission was on its way
    (_T.SUBMITTED, ev.TrialStarted): frozenset({_T.RUNNING}),
    **{(state, ev.TrialReported): frozenset({_T.RUNNING, _T.PRUNED}) for state in (_T.SUBMITTED, _T.RUNNING)},
    **{
        (state, ev.TrialEnded): frozenset({_T.SUCCEEDED, _T.FAILED, _T.CANCELLED})
        for state in (_T.SUBMITTED, _T.RUNNING)
    },
    **{(state, ev.TrialEnded): frozenset({state}) for state in (_T.PRUNED, _T.CANCELLED)},
    **{
        (state, event): frozenset({_T.CANCELLED})
        for state in (_T.SUBMITTED, _T.RUNNING)
        for event in (ev.CancelRequested, ev.TimePassed)
    },
}


def find(sweep: Sweep, number: int) -> Trial | None:
    return sweep.trials[number - 1] if 0 < number <= len(sweep.trials) else None


def changed(sweep: Sweep, event: Any, change: Callable[[Trial], Trial]) -> Sweep:
    """The sweep with the event's trial changed, as far as the table of trials allows the pair."""
    trial = find(sweep, event.number)
    allowed = TRIAL_TRANSITIONS.get((trial.state, type(event))) if trial else None
    if trial is None or allowed is None:
        return sweep
    after = change(trial)
    if after == trial:
        return sweep
    if after.state not in allowed:
        raise IllegalTransition(f"trial {trial.number} of {sweep.id}", trial.state, type(event).__name__)
    index = trial.number - 1
    return replace(sweep, trials=(*sweep.trials[:index], after, *sweep.trials[index + 1 :]))


def submitted(sweep: Sweep, event: ev.TrialSubmitted) -> Sweep:
    def change(trial: Trial) -> Trial:
        if trial.state is _T.CANCELLED:
            return trial if trial.job else replace(trial, job=event.job, settled=False)
        return replace(trial, state=_T.SUBMITTED, job=event.job)

    return changed(sweep, event, change)


def started(sweep: Sweep, event: ev.TrialStarted) -> Sweep:
    return changed(sweep, event, lambda trial: replace(trial, state=_T.RUNNING, started_ms=event.at_ms))


def reported(sweep: Sweep, event: ev.TrialReported) -> Sweep:
    """Judges the trial rung by rung, until one prunes it."""

    def change(trial: Trial) -> Trial:
        for step, value in event.reports:
            if trial.state is _T.PRUNED or (trial.reports and step <= trial.reports[-1][0]):
                continue
            started = event.at_ms if trial.started_ms is None else trial.started_ms
            trial = replace(
                trial,
                state=_T.RUNNING,
                started_ms=started,
                reports=(*trial.reports, (step, value)),
                step=step,
            )
            if why := verdict(sweep.spec.stopping, sweep.spec.objective, trial, sweep.trials):
                own = not trial.job  # a program evaluates it, and hears of it in the answer
                ended = event.at_ms if own else None
                trial = replace(trial, state=_T.PRUNED, reason=why, value=value, settled=own, ended_ms=ended)
        return trial

    after = changed(sweep, event, change)
    return replace(after, failures=0) if after != sweep else sweep


def stopped(sweep: Sweep, event: Event, why: str) -> Sweep:
    """Cancels every trial that has not ended; those without a job are settled by that."""
    trials = tuple(
        trial
        if trial.ended
        else replace(
            trial,
            state=_T.CANCELLED,
            reason=why,
            settled=not trial.job,
            ended_ms=None if trial.job else event.at_ms,
        )
        for trial in sweep.trials
    )
    return replace(sweep, trials=trials)
