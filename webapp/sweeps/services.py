"""The verbs of a sweep: create, pause, resume, change the budget, cancel."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q

from platform_core.errors import TrainmasterError
from platform_core.experiments import lineage as lineages
from platform_core.jobs import spec as job_specs
from platform_core.jobs.reader import Problem, SpecError
from platform_core.jobs.spec import JobSpec
from platform_core.sweeps import spec as specification
from platform_core.sweeps import states as ev
from platform_core.sweeps.definition import Budget, Method, SweepSpec
from platform_core.sweeps.space import draw
from platform_core.sweeps.transitions import begin
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import new_id, now_ms
from webapp.events import services as events
from webapp.jobs import origins
from webapp.jobs import services as jobs
from webapp.sweeps import driving, mapping, samplers, stepping
from webapp.sweeps.models import Sweep

_KEY = re.compile(r"[\x20-\x7e]{1,200}")
_LIVING = Q(state=ev.SweepState.RUNNING) | Q(trials__settled=False)


def create(
    actor: Actor,
    fields: Mapping[str, Any],
    *,
    lineage: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> tuple[Sweep, bool]:
    """Starts the sweep that a sweep file describes: the sweep, and whether it is new.

    Raises SpecError of sweep_invalid with every problem, those of the job under `job.` among them.
    """
    check_key(idempotency_key, "Idempotency-Key")
    spec = specification.parse(fields)
    permissions.require(actor, "sweep.create", spec.team)
    samplers.check_installed(spec.method)
    job = _checked_job(actor, spec) if spec.runs_jobs else None
    if idempotency_key and (earlier := _same(actor, spec, idempotency_key)):
        return earlier, False
    origin = lineages.submitted(lineage or {})
    pinned: dict[str, Any] = {}
    if job is not None:
        pinned, origin = _pinned(actor, job, origin)
    try:
        with transaction.atomic():
            return _create(actor, spec, idempotency_key, origin, pinned), True
    except IntegrityError:  # the same key was accepted between our look and our insert
        if idempotency_key and (earlier := _same(actor, spec, idempotency_key)):
            return earlier, False
        raise


def _create(
    actor: Actor, spec: SweepSpec, key: str | None, lineage: dict[str, Any], pinned: dict[str, Any]
) -> Sweep:
    value = begin(new_id("sweep"), spec, now_ms())
    row = Sweep.objects.create(
        id=value.id,
        team_id=spec.team,
        user=accounts.user(actor.username),
        name=spec.name,
        lineage=lineage,
        pinned=pinned,
        idempotency_key=key,
        created_ms=value.created_ms,
        **mapping.sweep_columns(value),
    )
    events.record(
        "SweepCreated", f"sweep:{row.id}", actor=actor.name, team=row.team_id,
        data={"name": row.name}, notify=(f"sweeps:{row.team_id}",),
    )  # fmt: skip
    return row


def _same(actor: Actor, spec: SweepSpec, key: str) -> Sweep | None:
    row = Sweep.objects.filter(user__username=actor.username, team=spec.team, idempotency_key=key).first()
    if row is not None and {**row.spec, "budget": None} != {**specification.as_mapping(spec), "budget": None}:
        raise TrainmasterError("idempotency_conflict", key=key)
    return row


def _checked_job(actor: Actor, spec: SweepSpec) -> JobSpec:
    """The job of a trial, with the middle of the search space. Raises SpecError where it would not be accepted."""
    value = begin("sweep-0000000000000000", spec, 0)
    trial = tuple(draw(spec.space, lambda: 0.5).items())
    with _problems_of_the_job():
        job = job_specs.parse(driving.job_mapping(value, 1, trial))
        jobs.check_permissions(actor, job)
        jobs.check_references(job)
    return job


def _pinned(actor: Actor, job: JobSpec, lineage: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What all trials have in place of words that move, and where that comes from. Blocks while code is fetched."""
    with _problems_of_the_job():
        resolved, origin = origins.resolve(actor, job, lineage)
    before, after = job_specs.as_mapping(job), job_specs.as_mapping(resolved)
    return {name: value for name, value in after.items() if value != before.get(name)}, origin


@contextmanager
def _problems_of_the_job() -> Iterator[None]:
    try:
        yield
    except SpecError as error:
        problems = (Problem(f"job.{p.field}", f"job: {p.sentence}") for p in error.problems)
        raise SpecError(tuple(problems), "sweep_invalid") from error


def pause(actor: Actor, sweep_id: str) -> None:
    """Nothing new is submitted; trials that have begun go on."""
    _steer(actor, sweep_id, ev.PauseRequested(at_ms=now_ms(), actor=actor.name))


def resume(actor: Actor, sweep_id: str) -> None:
    _steer(actor, sweep_id, ev.ResumeRequested(at_ms=now_ms()))


def change_budget(actor: Actor, sweep_id: str, fields: Mapping[str, Any]) -> None:
    """Changes some fields of the budget. A finished sweep, or one without budget, goes on if it has budget again."""
    with transaction.atomic():
        row = _allowed(actor, sweep_id)
        budget: Budget = specification.read_budget(fields, stepping.value_of(row).spec.budget)
        if budget.trials == 0 and row.spec["method"] != Method.GRID:
            why = "it must be 1 or more; only a grid has an end of its own"
            raise TrainmasterError("request_invalid", what="trials", why=why)
        event = ev.BudgetChanged(at_ms=now_ms(), budget=budget)
        stepping.apply(row, [event], actor=actor.name)


def cancel(actor: Actor, sweep_id: str) -> None:
    """Stops the trials, saving first, and ends the sweep."""
    _steer(actor, sweep_id, ev.CancelRequested(at_ms=now_ms(), actor=actor.name))


def _steer(actor: Actor, sweep_id: str, event: ev.SweepEvent) -> None:
    with transaction.atomic():
        stepping.apply(_allowed(actor, sweep_id), [event], actor=actor.name)


def unsettled() -> list[str]:
    """The sweeps in which something may happen that nobody asks for."""
    return list(Sweep.objects.filter(_LIVING).order_by("pk").values_list("pk", flat=True).distinct())


def found(actor: Actor, sweep_id: str, action: str = "sweep.view") -> Sweep:
    """The row, without a lock. Raises not_found and not_allowed."""
    row = Sweep.objects.select_related("user").filter(id=sweep_id).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"sweep {sweep_id}")
    permissions.require(actor, action, row.team_id, owner=row.user.username, what=f"sweep {sweep_id}")
    return row


def _allowed(actor: Actor, sweep_id: str) -> Sweep:
    found(actor, sweep_id, "sweep.steer")
    return stepping.locked(sweep_id)


def check_key(key: str | None, name: str) -> None:
    if key is not None and not _KEY.fullmatch(key):
        raise TrainmasterError(
            "request_invalid", what=name, why="it must be 1 to 200 printable ASCII characters"
        )
