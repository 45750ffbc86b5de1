"""Verbs of runs: create, edit, finish, tag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from django.db import IntegrityError, transaction

from platform_core.errors import TrainmasterError
from platform_core.experiments import fields
from platform_core.experiments.lineage import SILENT_SINCE
from platform_core.experiments.states import ENDED, RunState
from platform_core.jobs.spec import JobSpec
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import new_run_id, now_ms
from webapp.experiments import experiments
from webapp.experiments.models import Experiment, Run
from webapp.sockets import services as sockets

if TYPE_CHECKING:
    from webapp.jobs.models import Job


MAX_GENERATIONS = 20


class RunChanges(TypedDict, total=False):
    name: str
    description: str
    group: str
    state: str
    started_ms: int
    ended_ms: int | None
    parent: Run | None
    experiment: Experiment


def make_run(job: Job, spec: JobSpec) -> Run:
    """The run of a freshly submitted job, inside the submit transaction."""
    name = spec.experiment or spec.project or experiments.DEFAULT_EXPERIMENT
    lineage = {
        **job.lineage,
        "code": spec.code,
        "dataset": spec.dataset,
        "purpose": spec.purpose,
        "seed": spec.seed,
        "command": list(spec.command),
        "resume_from": spec.resume_from,
        "hardware": f"{spec.num_gpus} x {spec.gpu_type}",
    }
    return Run.objects.create(
        id=job.id,
        job=job,
        experiment=experiments.locked_for_run(spec.team, name, job.user_id),
        name=job.name,
        owner_id=job.user_id,
        state=RunState.PENDING,
        parameters={**dict(spec.hyperparameters), "num_gpus": spec.num_gpus, "strategy": spec.strategy.value},
        tags={name: value for name, _, value in (tag.partition("=") for tag in spec.tags)},
        lineage=lineage,
        source="job",
        gpu_type=spec.gpu_type,
        created_ms=job.submitted_ms,
        changed_ms=job.submitted_ms,
    )


def create_run(
    actor: Actor,
    experiment: Experiment,
    *,
    name: str = "",
    parameters: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
    description: str = "",
    parent: Run | None = None,
    group: str = "",
    source: str = "api",
    started_ms: int | None = None,
    run_id: str | None = None,
    user: str = "",
) -> Run:
    """A running run without a job. The same `run_id` again returns the run that it made.

    `user` is the name that the client gives its person.

    Raises idempotency_conflict when the id belongs to a run of another experiment.
    """
    require(actor, "experiment.edit", experiment.team_id, what=f"experiment {experiment.pk}")
    key = fields.run_id(run_id) if run_id else new_run_id()
    now = now_ms()
    values: dict[str, Any] = {
        "experiment": experiment,
        "name": fields.name(name, "run") if name else f"run-{key[:8]}",
        "owner_id": accounts.user_key(actor.username) if actor.username else None,
        "state": RunState.RUNNING,
        "parameters": fields.parameters(parameters or {}),
        "tags": fields.tags(tags or {}),
        "description": fields.text(description, "description", fields.MAX_DESCRIPTION),
        "parent": _parent_of(experiment, parent),
        "group": fields.text(group, "group", fields.MAX_RUN_NAME),
        "source": fields.source(source),
        "lineage": {"user": fields.text(user, "user", fields.MAX_RUN_NAME)} if user else {},
        "started_ms": now if started_ms is None else started_ms,
        "reported_ms": now,
        "created_ms": now,
        "changed_ms": now,
    }
    fields.within("parameters", len(values["parameters"]), fields.MAX_PARAMETERS)
    fields.within("tags", len(values["tags"]), fields.MAX_TAGS)
    try:
        with transaction.atomic():
            require_living(experiment)
            run = Run.objects.create(id=key, **values)
            publish([run])
            return run
    except IntegrityError:
        if (earlier := _earlier(key, experiment)) is not None:
            return earlier
        raise


def _earlier(run_id: str, experiment: Experiment) -> Run | None:
    run = Run.objects.select_related("experiment", "owner").filter(id=run_id).first()
    if run is None:
        return None
    if run.experiment_id != experiment.pk or run.deleted_ms is not None:
        raise TrainmasterError("idempotency_conflict", key=run_id)
    return run


def require_living(experiment: Experiment) -> None:
    """Locks the experiment against its deletion."""
    row = Experiment.objects.select_for_update(of=("self",), no_key=True).filter(id=experiment.pk).first()
    if row is None or row.deleted_ms is not None:
        sentence = f"Experiment {experiment.name} was deleted; restore it, or choose another"
        raise TrainmasterError("illegal_transition", sentence)


def _parent_of(experiment: Experiment, parent: Run | None, child: str = "") -> Run | None:
    """A parent is of the same team, and no run is its own ancestor."""
    ancestor, generations = parent, 0
    while ancestor is not None:
        generations += 1
        if ancestor.id == child or generations > MAX_GENERATIONS:
            why = f"run {ancestor.id} stands below the run itself, or {MAX_GENERATIONS} generations deep"
            raise TrainmasterError("request_invalid", what="parent", why=why)
        if ancestor.experiment.team_id != experiment.team_id:
            raise TrainmasterError("not_found", what=f"run {ancestor.id}")
        ancestor = ancestor.parent
    return parent


def update_run(actor: Actor, run: Run, **changes: Unpack[RunChanges]) -> Run:
    """Changes what is given. The state and the times of a job's run follow its job and are refused."""
    with transaction.atomic():
        if "experiment" in changes:
            require_living(changes["experiment"])  # experiments are locked before their runs
        row = locked(actor, run)
        values = _checked(row, changes)
        after = {name: value for name, value in values.items() if getattr(row, name) != value}
        if after:
            write(row, after)
            publish([row])
    return row


def _checked(row: Run, changes: RunChanges) -> dict[str, Any]:
    own = {"state", "started_ms", "ended_ms"} & changes.keys()
    if row.job_id is not None and own:
        why = "the run follows its job; cancel the job to end it"
        raise TrainmasterError("request_invalid", what=", ".join(sorted(own)), why=why)
    values: dict[str, Any] = dict(changes)
    if "name" in changes:
        values["name"] = fields.name(changes["name"], "run")
    if "description" in changes:
        values["description"] = fields.text(changes["description"], "description", fields.MAX_DESCRIPTION)
    if "group" in changes:
        values["group"] = fields.text(changes["group"], "group", fields.MAX_RUN_NAME)
    if "parent" in changes:
        values["parent"] = _parent_of(row.experiment, changes["parent"], row.id)
    if "experiment" in changes and changes["experiment"].team_id != row.experiment.team_id:
        raise TrainmasterError("not_found", what=f"experiment {changes['experiment'].pk}")
    if "state" in changes:
        values |= _state(row, changes)
    return values


def _state(row: Run, changes: RunChanges) -> dict[str, Any]:
    """A run that ends has an end; a run that goes on has none."""
    if changes["state"] not in list(RunState):
        why = f"{changes['state'][:60]!r} is none of {', '.join(RunState)}"
        raise TrainmasterError("request_invalid", what="state", why=why)
    state = RunState(changes["state"])
    lineage = {name: value for name, value in row.lineage.items() if name != SILENT_SINCE}
    if state not in ENDED:
        return {"state": state, "ended_ms": None, "reported_ms": now_ms(), "lineage": lineage}
    ended_ms = changes.get("ended_ms") or (row.ended_ms if row.state == state else None) or now_ms()
    return {"state": state, "ended_ms": ended_ms, "lineage": lineage}


def finish_run(actor: Actor, run: Run, state: str = RunState.SUCCEEDED, ended_ms: int | None = None) -> Run:
    """Ends a run without a job. Raises request_invalid for a state that is not an end."""
    if state not in ENDED:
        why = f"{state[:60]!r} is none of {', '.join(sorted(ENDED))}"
        raise TrainmasterError("request_invalid", what="state", why=why)
    return update_run(actor, run, state=state, ended_ms=ended_ms)


def log_parameters(actor: Actor, run: Run, given: Mapping[str, Any]) -> Run:
    """Adds parameters; those of the same name are replaced."""
    return _add(actor, run, "parameters", fields.parameters(given), fields.MAX_PARAMETERS)


@transaction.atomic
def log_new_parameters(actor: Actor, run: Run, given: Mapping[str, Any]) -> dict[str, Any]:
    """Adds the parameters that the run does not have. Returns those that it had before."""
    row = locked(actor, run)
    before: dict[str, Any] = row.parameters
    new = {key: value for key, value in fields.parameters(given).items() if key not in before}
    fields.within("parameters", len(before) + len(new), fields.MAX_PARAMETERS)
    if new:
        write(row, {"parameters": {**before, **new}})
        publish([row])
    return before


def set_tags(actor: Actor, run: Run, given: Mapping[str, str]) -> Run:
    """Adds tags; those of the same name are replaced."""
    return _add(actor, run, "tags", fields.tags(given), fields.MAX_TAGS)


@transaction.atomic
def _add(actor: Actor, run: Run, field: str, given: dict[str, Any], limit: int) -> Run:
    row = locked(actor, run)
    merged = {**getattr(row, field), **given}
    fields.within(field, len(merged), limit)
    if merged != getattr(row, field):
        write(row, {field: merged})
        publish([row])
    return row


@transaction.atomic
def tag_runs(actor: Actor, ids: Sequence[str], given: Mapping[str, str]) -> int:
    """Adds tags to runs, to all or to none. Returns how many changed."""
    tags = fields.tags(given)
    rows = [row for row in locked_all(actor, "experiment.edit", ids) if {**row.tags, **tags} != row.tags]
    for row in rows:
        row.tags, row.changed_ms = {**row.tags, **tags}, now_ms()
        fields.within("tags", len(row.tags), fields.MAX_TAGS)
    Run.objects.bulk_update(rows, ["tags", "changed_ms"], batch_size=500)
    publish(rows)
    return len(rows)


@transaction.atomic
def delete_tags(actor: Actor, run: Run, names: Iterable[str]) -> Run:
    """Removes tags; names that the run does not have are ignored."""
    row = locked(actor, run)
    kept = {name: value for name, value in row.tags.items() if name not in set(names)}
    if kept != row.tags:
        write(row, {"tags": kept})
        publish([row])
    return row


def locked(actor: Actor, run: Run) -> Run:
    """The row of a run that is not deleted, for a change by the actor."""
    [row] = locked_all(actor, "experiment.edit", [run.id])
    if row.deleted_ms is not None:
        raise TrainmasterError(
            "illegal_transition", f"Run {row.id} was deleted; restore it before you change it"
        )
    return row


def locked_all(actor: Actor, action: str, ids: Sequence[str]) -> list[Run]:
    """The rows in the order of their ids. Raises not_found, not_allowed for the first that the actor may not change."""
    rows = Run.objects.select_for_update(of=("self",)).select_related("experiment__team", "owner", "job")
    found = {row.id: row for row in rows.filter(id__in=ids).order_by("id")}
    for run_id in sorted(set(ids)):
        row = found.get(run_id)
        if row is None:
            raise TrainmasterError("not_found", what=f"run {run_id}")
        owner = row.owner_name or None
        require(actor, action, row.experiment.team_id, owner=owner, what=f"run {run_id}")
    return list(found.values())


def write(row: Run, values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        setattr(row, name, value)
    row.changed_ms = now_ms()
    row.save(update_fields=[*values, "changed_ms"])


def publish(rows: Iterable[Run]) -> None:
    """Tells the pages of runs, and those of their experiments."""
    for row in rows:
        sockets.publish(f"run:{row.id}")
        sockets.publish(f"experiment:{row.experiment_id}")
