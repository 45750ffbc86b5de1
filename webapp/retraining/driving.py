"""A round of one cycle: what its state asks for is done in the transaction that keeps what came of it.

Killed at any moment, a worker leaves the step done and kept, or not done at all.
"""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.evaluations.states import SETTLED
from platform_core.jobs.states import TERMINAL, JobState
from platform_core.registry.stages import Stage
from platform_core.retraining import cycle as machine
from platform_core.retraining.cycle import Todo, todo
from webapp.accounts.queries import actor_of
from webapp.base.lease import Fence
from webapp.checkpoints import queries as checkpoints
from webapp.evaluations import queries as evaluations
from webapp.jobs import queries as jobs
from webapp.jobs import repetition
from webapp.registry import queries as registry
from webapp.registry import services as registry_services
from webapp.retraining import recipe
from webapp.retraining.mapping import cycle_of, policy_of
from webapp.retraining.models import Cycle
from webapp.retraining.stepping import locked, step
from webapp.serving import services as serving

_LATER = frozenset({"quota_exceeded"})  # may be otherwise in a while


def drive(cycle_id: str, fence: Fence = transaction.atomic) -> None:
    rows = Cycle.objects.select_related("model", "author", "base", "version__model", "endpoint")
    row = rows.get(pk=cycle_id)
    action = _ACTIONS.get(todo(cycle_of(row)))
    if action is None:
        return
    if row.model.deleted_ms is not None:
        _feed(row, fence, machine.Broke("the model was deleted"))
        return
    try:
        action(row, fence)
    except TrainmasterError as error:
        later = error.code in _LATER and todo(cycle_of(row)) is Todo.SUBMIT
        why = error.sentence if later else f"{row.author.username} cannot go on with it: {error.sentence}"
        _feed(row, fence, machine.Delayed(why) if later else machine.Broke(why))


def _feed(row: Cycle, fence: Fence, event: machine.Event) -> None:
    if isinstance(event, machine.Delayed) and event.why == row.reason:
        return
    with fence():
        if (current := locked(row.id, row.state)) is not None:
            step(current, event)


def _submit(row: Cycle, fence: Fence) -> None:
    """As the author of the policy, whose rights are looked at anew. Its code and image were pinned long ago."""
    made = recipe.of(row.base)
    with fence():
        current = locked(row.id, row.state)
        if current is None:
            return
        key = f"retraining {row.id}"
        job = repetition.retrain(actor_of(row.author), made.job_id, made.spec, key)
        current.dataset = made.spec.dataset
        step(current, machine.Submitted(job.id))


def _follow_job(row: Cycle, fence: Fence) -> None:
    report = jobs.reports([row.job_id or ""]).get(row.job_id or "")
    if report is None:
        _feed(row, fence, machine.Broke("its job was deleted"))
    elif JobState(report.state) in TERMINAL and JobState(report.state) is not JobState.SUCCEEDED:
        _feed(row, fence, machine.Broke(f"its job {report.state}: {report.reason or 'its page has why'}"))
    elif JobState(report.state) is JobState.SUCCEEDED and report.drained:
        _register(row, fence)


def _register(row: Cycle, fence: Fence) -> None:
    newest = checkpoints.living(job=row.job_id).order_by("-step", "-attempt").first()
    if newest is None:
        _feed(row, fence, machine.Broke("its job saved no checkpoint that can be used"))
        return
    with fence():
        current = locked(row.id, row.state)
        if current is None:
            return
        model = current.model
        version = registry_services.register(
            actor_of(row.author), model.team_id, model.name, checkpoint=newest.id
        )
        step(current, machine.Registered(version.id))


def _ask_gate(row: Cycle, fence: Fence) -> None:
    if row.version is None:
        _feed(row, fence, machine.Broke("its version was deleted"))
        return
    if awaited(row):
        return
    refusals = registry_services.refusals(row.version, Stage.VALIDATED)
    _feed(row, fence, machine.Judged(tuple(refusals)))


def awaited(row: Cycle) -> list[str]:
    """The evaluations that the gate waits for: of the version, and of the one in production beside it."""
    production = registry.in_production(row.model)
    versions = [row.version_id or "", *([production.id] if production else [])]
    runs = evaluations.newest_runs(versions).values()
    return [
        f"{run.suite} is {run.state}" for of_version in runs for run in of_version if run.state not in SETTLED
    ]


def _start_canary(row: Cycle, fence: Fence) -> None:
    endpoint, version = row.endpoint, row.version
    if endpoint is None or endpoint.stopped:
        _feed(row, fence, machine.Broke("its endpoint was stopped"))
    elif version is None:
        _feed(row, fence, machine.Broke("its version was deleted"))
    elif endpoint.canary_id is not None:
        _feed(row, fence, machine.Delayed(f"{endpoint.name} watches another canary"))
    else:
        with fence():
            current = locked(row.id, row.state)
            if current is None:
                return
            serving.change_version(
                actor_of(row.author), endpoint.team_id, endpoint.name, version.version, policy_of(row).canary
            )
            step(current, machine.CanaryStarted())


def _follow_canary(row: Cycle, fence: Fence) -> None:
    endpoint = row.endpoint
    if endpoint is None or endpoint.stopped:
        _feed(row, fence, machine.Broke("its endpoint was stopped"))
    elif endpoint.stable_id == row.version_id:
        with fence():
            if (current := locked(row.id, row.state)) is not None:
                verdict = f"{endpoint.verdict}{_into_production(current)}"
                step(current, machine.CanaryEnded(promoted=True, verdict=verdict))
    elif endpoint.canary_id != row.version_id:
        _feed(row, fence, machine.CanaryEnded(promoted=False, verdict=endpoint.verdict))


def _into_production(row: Cycle) -> str:
    """The stage follows the endpoint, where the gate lets the version in; what is said otherwise."""
    assert row.version is not None
    try:
        registry_services.set_stage(actor_of(row.author), row.version, "production", archive_others=True)
    except TrainmasterError as error:
        return f"; its stage stays {row.version.stage}: {error.sentence}"
    return ""


_ACTIONS: dict[Todo, Callable[[Cycle, Fence], None]] = {
    Todo.SUBMIT: _submit,
    Todo.FOLLOW_JOB: _follow_job,
    Todo.ASK_GATE: _ask_gate,
    Todo.START_CANARY: _start_canary,
    Todo.FOLLOW_CANARY: _follow_canary,
}
