"""Reads of sweeps and their trials."""

from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import Count, Q, QuerySet

from platform_core.sweeps.states import Sweep as SweepValue
from platform_core.sweeps.states import SweepState, TrialState
from platform_core.sweeps.states import Trial as TrialValue
from platform_core.sweeps.transitions import best
from webapp.accounts.permissions import may
from webapp.accounts.queries import actor_of
from webapp.metrics import queries as metrics
from webapp.sweeps import mapping
from webapp.sweeps.models import Sweep, Trial


def visible(teams: Iterable[str] | None) -> QuerySet[Sweep]:
    """Newest first, with the number of trials and of those that ended."""
    rows = Sweep.objects.select_related("user").order_by("-created_ms", "-id")
    rows = rows.annotate(
        count=Count("trials"),
        running=Count("trials", filter=Q(trials__settled=False) & ~Q(trials__state=TrialState.PROPOSED)),
        pruned=Count("trials", filter=Q(trials__state=TrialState.PRUNED)),
    )
    return rows if teams is None else rows.filter(team__in=list(teams))


def trials(sweep_id: str) -> list[Trial]:
    return list(Trial.objects.filter(sweep=sweep_id).defer("notes").select_related("job").order_by("number"))


def tags_of_trial(sweep_id: str, number: int) -> list[str]:
    """What the job of a trial has besides the tags of its job file."""
    return [f"sweep={sweep_id}", f"trial={number}"]


def tags_of_trials_job(job_id: str) -> list[str]:
    """None where the job is no trial. A clone of it is none either, and has to go without them."""
    trial = Trial.objects.filter(job=job_id).first()
    return tags_of_trial(trial.sweep_id, trial.number) if trial else []


def value(row: Sweep) -> SweepValue:
    return mapping.sweep_value(row, trials(row.pk))


def best_of(row: Sweep) -> TrialValue | None:
    return best(value(row))


def may_watch(user: Any, sweep_id: str) -> bool:
    team = Sweep.objects.filter(id=sweep_id).values_list("team_id", flat=True).first()
    return team is not None and may(actor_of(user), "sweep.view", team)


def running_count(teams: Iterable[str] | None) -> int:
    rows = Sweep.objects.filter(state=SweepState.RUNNING)
    return (rows if teams is None else rows.filter(team__in=list(teams))).count()


def curves(
    sweep: SweepValue, numbers: Collection[int], columns: int
) -> dict[int, tuple[list[int], list[float | None]]]:
    """The metric of these trials by step, at most so many points each; from the reports where no job ran."""
    metric = sweep.spec.objective.metric
    chosen = {trial.job: trial for trial in sweep.trials if trial.number in numbers and trial.job}
    bands = metrics.bands(list(chosen), metric, columns=columns)
    known = {
        chosen[job].number: ([int(x) for x in band.x_to], list(band.last))
        for job, band in bands.items()
        if len(band.x_to)
    }
    for trial in sweep.trials:
        if trial.number in numbers and not trial.job and trial.reports:
            known[trial.number] = ([step for step, _ in trial.reports], [value for _, value in trial.reports])
    return known
