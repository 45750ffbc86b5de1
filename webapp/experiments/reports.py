"""What processes report of their runs: parameters, packages, metric values, artifacts."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from platform_core.experiments import fields, lineage
from platform_core.experiments.names import is_metric, is_of_rank, is_system
from platform_core.experiments.states import ENDED, RunState, of_job
from platform_core.jobs.job import Job as JobValue
from webapp.accounts.permissions import Actor
from webapp.artifacts import services as artifacts
from webapp.base.identity import now_ms
from webapp.base.rows import update_each
from webapp.events import services as events
from webapp.experiments.models import Run, RunArtifact
from webapp.experiments.runs import locked, publish, write
from webapp.experiments.silence import resumed
from webapp.metrics import queries as metric_queries
from webapp.metrics import services as metrics
from webapp.metrics.values import Points
from webapp.sockets import services as sockets

METRIC_NAMES = 1_000  # of a run: each is a curve on its page
MOST_TOLD = 10  # entries that were left out, in one event
SYSTEM_NAMES = 10_000  # of what agents sample: 50 of a node with 8 GPUs


@dataclass(frozen=True, slots=True)
class Point:
    key: str
    step: int
    value: float
    at_ms: int


def describe_run(run_id: str, description: Mapping[str, Any]) -> None:
    """What the script told at its start: parameters, package versions, seed, the hardware it found."""
    with transaction.atomic():
        run = Run.objects.select_for_update().filter(id=run_id).first()
        if run is None:
            return
        parameters, reported, problems = lineage.reported(description)
        run.parameters, beyond = _joined(run.parameters, parameters, "parameter", fields.MAX_PARAMETERS)
        run.lineage = {**run.lineage, **reported}
        run.reported_ms = run.changed_ms = now_ms()
        run.save(update_fields=["parameters", "lineage", "reported_ms", "changed_ms"])
        if problems or beyond:
            _tell_left_out(run, problems + beyond)


@transaction.atomic
def add_reported_tags(run_id: str, given: Mapping[str, Any]) -> None:
    """Adds the tags that a script of a job sets. One that cannot be kept costs no other, and is told."""
    run = Run.objects.select_for_update().filter(id=run_id).first()
    if run is None:
        return
    tags, problems = fields.sorted_out("tag", given)
    run.tags, beyond = _joined(run.tags, tags, "tag", fields.MAX_TAGS)
    run.changed_ms = now_ms()
    run.save(update_fields=["tags", "changed_ms"])
    if problems or beyond:
        _tell_left_out(run, problems + beyond)


def _joined(
    known: Mapping[str, Any], more: Mapping[str, Any], kind: str, limit: int
) -> tuple[dict[str, Any], list[str]]:
    """Both together up to the limit, and a sentence for each that is beyond it."""
    new = [name for name in more if name not in known]
    beyond = set(new[max(0, limit - len(known)) :])
    joined = {**known, **{name: value for name, value in more.items() if name not in beyond}}
    return joined, [f"{kind} {name:.60} is left out: {limit:,} are kept of a run" for name in sorted(beyond)]


def _tell_left_out(run: Run, problems: Sequence[str]) -> None:
    kind = "job" if run.job_id else "run"
    events.record("ReportLeftOut", f"{kind}:{run.id}", actor="system", cause=_shortened(problems))


def _shortened(problems: Sequence[str]) -> str:
    more = f"; and {len(problems) - MOST_TOLD:,} more" if len(problems) > MOST_TOLD else ""
    return f"Left out: {'; '.join(problems[:MOST_TOLD])}{more}"


def ingest(
    run_id: str, attempt: int, points: Sequence[Point], *, source: str = "", sequence: int | None = None
) -> None:
    """Keeps what an attempt of a job reported, and tells the page; the same points again change nothing."""
    ingest_series(run_id, attempt, columns(points), source=source, sequence=sequence)


def ingest_series(
    run_id: str, attempt: int, points: Sequence[Points], *, source: str = "", sequence: int | None = None
) -> None:
    """The same for points that are columns already, of one series a metric."""
    with transaction.atomic():
        run = Run.objects.select_for_update().filter(id=run_id).first()
        if run is None or not points:
            return
        if beyond := _names_beyond_the_limit(run, points):
            points = [point for point in points if point.key not in beyond]
            _tell_once_of_names(run, beyond)
        _keep(run, points, attempt, source, sequence)


def log_points(
    actor: Actor, run: Run, points: Sequence[Points], *, source: str = "", sequence: int | None = None
) -> bool:
    """Keeps points of a run; False, and nothing changes, if this batch of the source was kept before.

    Raises too_large beyond the limit of metrics of a run."""
    with transaction.atomic():
        row = locked(actor, run)
        fresh = _keep(row, points, 0, source, sequence)
        _require_few_metrics(row)
        return fresh


def _require_few_metrics(run: Run) -> None:
    fields.within("metrics", metric_queries.number_of_keys(run.id), fields.MAX_METRICS)


@dataclass(frozen=True, slots=True)
class Batch:
    """What a process outside the platform logs at once. Together with its source and sequence it counts once."""

    points: Sequence[Points] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    lineage: Mapping[str, Any] = field(default_factory=dict)
    source: str = ""
    sequence: int | None = None
    attempt: int = 0


def log_batch(actor: Actor, run: Run, batch: Batch) -> bool:
    """Keeps all of a batch or nothing; False, and nothing changes, if this batch of the source was kept before.

    Any batch, an empty one too, is a sign of life: a run that was given up for its silence goes on.
    """
    parameters, tags = fields.parameters(batch.parameters), fields.tags(batch.tags)
    made_of, problems = lineage.logged(batch.lineage)
    with transaction.atomic():
        row = locked(actor, run)
        fresh = _keep(row, batch.points, batch.attempt, batch.source, batch.sequence)
        _require_few_metrics(row)
        values: dict[str, Any] = {"reported_ms": now_ms(), **resumed(row)}
        if fresh:
            before = values.get("lineage", row.lineage)
            merged = {**row.parameters, **parameters}, {**row.tags, **tags}, {**before, **made_of}
            fields.within("parameters", len(merged[0]), fields.MAX_PARAMETERS)
            fields.within("tags", len(merged[1]), fields.MAX_TAGS)
            values |= dict(zip(("parameters", "tags", "lineage"), merged, strict=True))
        write(row, values)
        if fresh and problems:
            _tell_left_out(row, problems)
        publish([row])
    return fresh


def _keep(run: Run, points: Sequence[Points], attempt: int, source: str, sequence: int | None) -> bool:
    if not metrics.append(run.id, points, attempt=attempt, source=source, sequence=sequence):
        return False
    Run.objects.filter(id=run.id).update(reported_ms=now_ms())
    shown = [series for series in points if not is_of_rank(series.key)]  # no page draws those as they come
    subjects = ("run", "job") if run.job_id else ("run",)
    for subject in subjects if shown or not points else ():
        sockets.publish(f"{subject}:{run.id}", {"points": _by_step(shown)})
    return True


def columns(points: Iterable[Point]) -> list[Points]:
    """Single points as one series a metric."""
    series: dict[str, Points] = {}
    for point in points:
        of_metric = series.get(point.key) or series.setdefault(point.key, Points(point.key, [], [], []))
        of_metric.steps.append(point.step)
        of_metric.values.append(point.value)
        of_metric.times_ms.append(point.at_ms)
    return list(series.values())


def _names_beyond_the_limit(run: Run, points: Sequence[Points]) -> set[str]:
    reported = metric_queries.keys([run.id])
    beyond: set[str] = set()
    for limit, of_kind in ((METRIC_NAMES, is_metric), (SYSTEM_NAMES, is_system)):
        known = set(filter(of_kind, reported))
        new = sorted({point.key for point in points if of_kind(point.key)} - known)
        beyond.update(new[max(0, limit - len(known)) :])
    return beyond


def _tell_once_of_names(run: Run, names: Collection[str]) -> None:
    if run.lineage.get("metrics_left_out"):
        return
    sentence = (
        f"the run has {METRIC_NAMES} metrics, the most that it may; {min(names)[:100]} and other new names"
    )
    run.lineage = {**run.lineage, "metrics_left_out": sentence}
    run.save(update_fields=["lineage"])
    _tell_left_out(run, [sentence])


def _by_step(points: Sequence[Points]) -> list[dict[str, Any]]:
    """As the charts take them: one object a step, with the finite values of all its metrics."""
    steps: dict[int, dict[str, Any]] = {}
    for series in points:
        for step, value, at_ms in zip(series.steps, series.values, series.times_ms, strict=True):
            if math.isfinite(value):
                of_step = steps.setdefault(int(step), {"step": int(step), "at_ms": int(at_ms), "values": {}})
                of_step["values"][series.key] = float(value)
    return [steps[step] for step in sorted(steps)]


def add_artifact(
    run_id: str, name: str, *, manifest_json: str, source_url: str, etags: Sequence[str] = ()
) -> None:
    with transaction.atomic():
        run = Run.objects.select_related("experiment").filter(id=run_id).first()
        if run is None:
            return
        manifest = artifacts.register_json(manifest_json, run.experiment.team_id, source_url, etags)
        RunArtifact.objects.update_or_create(
            run=run, name=name[:200], defaults={"manifest": manifest, "created_ms": now_ms()}
        )


def follow_jobs(jobs: Sequence[JobValue]) -> None:
    """Gives the runs of these jobs their state and times, and ends the runs below those that have ended.

    A run has begun with the first attempt of its job."""
    now = now_ms()
    known = Run.objects.filter(id__in=[job.id for job in jobs], started_ms__isnull=False)
    begun = dict(known.values_list("id", "started_ms"))
    columns = {
        job.id: {
            "state": of_job(job.state),
            "started_ms": begun.get(job.id, job.started_ms),
            "ended_ms": job.finished_ms,
            "changed_ms": now,
        }
        for job in jobs
    }
    update_each(Run, columns)
    ends: dict[RunState, list[str]] = {}
    for job in jobs:
        if (state := of_job(job.state)) in ENDED:
            ends.setdefault(state, []).append(job.id)
    for state, parents in ends.items():
        living = Run.objects.filter(parent__in=parents, job=None, ended_ms=None)
        living.update(state=state, ended_ms=now, changed_ms=now)
    for run_id, experiment_id in Run.objects.filter(id__in=columns).values_list("id", "experiment_id"):
        sockets.publish(f"run:{run_id}")
        sockets.publish(f"experiment:{experiment_id}")
