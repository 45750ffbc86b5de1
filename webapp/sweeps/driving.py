"""A round of a sweep: see what its jobs did, propose what may run, carry out what is owed. Any step may be repeated."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction

from platform_core.errors import IllegalTransition, TrainmasterError
from platform_core.jobs.states import JobState
from platform_core.sweeps import states as ev
from platform_core.sweeps.definition import Method
from platform_core.sweeps.stopping import next_rung, reached
from platform_core.sweeps.transitions import owed
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.base.lease import Fence
from webapp.jobs import queries as jobs
from webapp.jobs import services as job_services
from webapp.quotas import queries as quotas
from webapp.sweeps import objective, queries, samplers, stepping
from webapp.sweeps.models import Sweep, Trial

DRAIN_MS = (
    60_000  # an agent that is away longer than this after the end of a job sends nothing more that counts
)
_BEGUN = frozenset({JobState.RUNNING, JobState.CHECKPOINTING, JobState.PREEMPTED})
_OUTCOMES = {
    JobState.SUCCEEDED: ev.TrialState.SUCCEEDED,
    JobState.FAILED: ev.TrialState.FAILED,
    JobState.CANCELLED: ev.TrialState.CANCELLED,
}


def drive(sweep_id: str, fence: Fence = transaction.atomic) -> None:
    row = Sweep.objects.get(id=sweep_id)
    seen = list(observed(stepping.value_of(row)))
    with fence():
        value = stepping.apply(stepping.locked(sweep_id), seen)
    value = propose(row, value, fence)
    for effect in owed(value):
        if isinstance(effect, ev.Submit):
            submit(sweep_id, effect.trial.number, fence)
        else:
            stop(value, effect.trial)


# -- what the jobs did


def observed(sweep: ev.Sweep) -> Iterable[ev.SweepEvent]:
    """The events that follow from the jobs, their metrics and their cost; those that are known already do no harm."""
    now = now_ms()
    unsettled = {trial.job: trial for trial in sweep.trials if trial.job and not trial.settled}
    reports = jobs.reports(unsettled)
    for job_id, trial in unsettled.items():
        if (report := reports.get(job_id)) is not None:
            yield from _of_trial(sweep, trial, report, now)
    costs = quotas.costs_of_jobs([trial.job for trial in sweep.trials if trial.job], now).values()
    yield ev.TimePassed(
        at_ms=now,
        gpu_ms=sum(cost.gpu_ms for cost in costs),
        micro_dollars=sum(cost.micro_dollars for cost in costs),
    )


def _of_trial(sweep: ev.Sweep, trial: ev.Trial, job: jobs.JobReport, now: int) -> Iterable[ev.SweepEvent]:
    state = JobState(job.state)
    ran = state in _BEGUN or (state in _OUTCOMES and job.started_ms is not None)
    if trial.state is ev.TrialState.SUBMITTED and ran:
        yield ev.TrialStarted(at_ms=job.started_ms or now, number=trial.number)
    if not trial.ended and (rungs := _rungs(sweep, trial)):
        yield ev.TrialReported(at_ms=now, number=trial.number, reports=tuple(rungs))
    outcome = _OUTCOMES.get(state)
    if outcome is None or not (job.drained or now - (job.finished_ms or now) > DRAIN_MS):
        return
    value, step = objective.value_of(trial.job, sweep.spec.objective) or (None, None)
    yield ev.TrialEnded(
        at_ms=job.finished_ms or now,
        number=trial.number,
        outcome=outcome,
        value=value,
        step=step,
        why=job.reason,
    )


def _rungs(sweep: ev.Sweep, trial: ev.Trial) -> list[tuple[int, float]]:
    """The rungs of early stopping that the trial has reached since."""
    stopping = sweep.spec.stopping
    last = trial.reports[-1][0] if trial.reports else 0
    rung = next_rung(stopping, trial.number, last)
    if rung is None:
        return []
    curve = objective.points(trial.job, sweep.spec.objective.metric, rung - 1)
    return reached(stopping, trial.number, last, curve)


# -- what may run next


def propose(row: Sweep, value: ev.Sweep, fence: Fence) -> ev.Sweep:
    """Asks the sampler, with no transaction open, for as many settings as there is room for."""
    if value.spec.method is Method.EXTERNAL or not value.spec.runs_jobs:
        return value
    while value.room:
        event, more = next_proposal(row, value)
        with fence():
            after = stepping.apply(stepping.locked(row.id), [event], more=more)
        if after.version == value.version:  # somebody else was quicker: the next round looks again
            return after
        value = after
    return value


def next_proposal(row: Sweep, value: ev.Sweep) -> tuple[ev.SweepEvent, dict[int, dict[str, Any]]]:
    """The next trial as an event, with the columns of its row that the core does not know."""
    number = len(value.trials) + 1
    notes = dict(Trial.objects.filter(sweep=row.pk).exclude(notes={}).values_list("number", "notes"))
    proposal = samplers.propose(value.spec, value.trials, notes, number)
    if proposal is None:
        return ev.SpaceExhausted(at_ms=now_ms()), {}
    parameters = tuple(sorted(proposal.parameters.items()))
    event = ev.Proposed(at_ms=now_ms(), number=number, parameters=parameters)
    return event, {number: {"notes": dict(proposal.notes)}}


# -- what is owed


def job_mapping(value: ev.Sweep, number: int, parameters: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The trial as the fields of a job file."""
    job = dict(value.spec.job or {})
    fixed = job.get("hyperparameters") or {}
    tags = job.get("tags") or []
    return {
        **job,
        "name": f"{value.spec.name}-{number}",
        "team": value.spec.team,
        "experiment": job.get("experiment") or value.spec.name,
        "hyperparameters": {**fixed, **dict(parameters)},
        "tags": [*tags, *queries.tags_of_trial(value.id, number)],
    }


def submit(sweep_id: str, number: int, fence: Fence) -> None:
    """The trial's job and its record in one transaction; the key makes a second submission the same job."""
    with fence():
        row = stepping.locked(sweep_id)
        value = stepping.value_of(row)
        trial = value.trials[number - 1]
        if ev.Submit(trial) not in owed(value):
            return
        event: ev.SweepEvent
        try:
            with transaction.atomic():
                job, _ = job_services.submit(
                    actor_of(row.user),
                    {**job_mapping(value, number, trial.parameters), **row.pinned},
                    idempotency_key=f"{sweep_id}/{number}",
                    lineage=row.lineage,
                    pinned=True,
                )
            event = ev.TrialSubmitted(at_ms=now_ms(), number=number, job=job.id)
        except TrainmasterError as refusal:
            if _passes(refusal):
                return
            event = ev.TrialRefused(at_ms=now_ms(), number=number, why=refusal.sentence)
        stepping.apply(row, [event])


def _passes(refusal: TrainmasterError) -> bool:
    """Whether the team's quota is only full now: the next round tries again."""
    numbers = refusal.numbers
    asked, most = numbers.get("asked", 0), numbers.get("maximum", 0)
    full = isinstance(asked, int) and isinstance(most, int) and 0 < asked <= most
    return refusal.code == "quota_exceeded" and full


def stop(value: ev.Sweep, trial: ev.Trial) -> None:
    """Its script hears of it from should_stop(); a job that has ended, or is being stopped already, stays as it is."""
    pruned = trial.state is ev.TrialState.PRUNED
    cause = f"pruned by sweep {value.id}: {trial.reason}" if pruned else f"sweep {value.id}: {trial.reason}"
    may_save = value.spec.stopping.save if pruned else True
    try:
        job_services.cancel(SYSTEM, trial.job, cause, may_save=may_save)
    except IllegalTransition:
        return
