"""What processes report of their runs: parameters, packages, metric values, artifacts."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import transaction

from platform_core.experiments import lineage
from platform_core.experiments.names import is_metric, is_system
from platform_core.experiments.states import ENDED, RunState, of_job
from platform_core.jobs.job import Job as JobValue
from webapp.artifacts import services as artifacts
from webapp.base.identity import now_ms
from webapp.base.rows import update_each
from webapp.events import services as events
from webapp.experiments import metric_store
from webapp.experiments.metric_store import Point
from webapp.experiments.models import Run, RunArtifact
from webapp.sockets import services as sockets

METRIC_NAMES = 1_000  # of a run: each is a curve on its page
SYSTEM_NAMES = 10_000  # of what agents sample: 50 of a node with 8 GPUs


def describe_run(run_id: str, description: Mapping[str, Any]) -> None:
    """What the script told at its start: parameters, package versions, seed, the hardware it found."""
    with transaction.atomic():
        run = Run.objects.select_for_update().filter(id=run_id).first()
        if run is None:
            return
        parameters, reported, problems = lineage.reported(description)
        run.parameters = {**run.parameters, **parameters}
        run.lineage = {**run.lineage, **reported}
        run.reported_ms = run.changed_ms = now_ms()
        run.save(update_fields=["parameters", "lineage", "reported_ms", "changed_ms"])
        if problems:
            _tell_left_out(run, problems)


def _tell_left_out(run: Run, problems: Sequence[str]) -> None:
    kind = "job" if run.job_id else "run"
    events.record(
        "ReportLeftOut", f"{kind}:{run.id}", actor="system", cause=f"Left out: {'; '.join(problems)}"
    )


def ingest(run_id: str, attempt: int, points: Sequence[Point]) -> None:
    """Keep metric values and tell the page; the same points again change nothing."""
    # JSON and charts have no NaN; the log has it.
    finite = [point for point in points if math.isfinite(point.value)]
    with transaction.atomic():
        run = Run.objects.select_for_update().filter(id=run_id).first()
        if run is None or not finite:
            return
        if beyond := _names_beyond_the_limit(run, finite):
            finite = [point for point in finite if point.key not in beyond]
            _tell_once_of_names(run, beyond)
        metric_store.append(run_id, attempt, finite)
        run.summary = _summary(run.summary, finite)
        run.ingested += 1
        run.reported_ms = now_ms()
        run.save(update_fields=["summary", "ingested", "reported_ms"])
        for subject in ("run", "job") if run.job_id else ("run",):
            sockets.publish(f"{subject}:{run_id}", {"points": _by_step(finite)})


def _names_beyond_the_limit(run: Run, points: Sequence[Point]) -> set[str]:
    beyond: set[str] = set()
    for limit, of_kind in ((METRIC_NAMES, is_metric), (SYSTEM_NAMES, is_system)):
        known = set(filter(of_kind, run.summary))
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


def _by_step(points: Sequence[Point]) -> list[dict[str, Any]]:
    """As the charts take them: one object a step, with the values of all its metrics."""
    steps: dict[int, dict[str, Any]] = {}
    for point in points:
        steps.setdefault(point.step, {"step": point.step, "at_ms": point.at_ms, "values": {}})["values"][
            point.key
        ] = point.value
    return [steps[step] for step in sorted(steps)]


def _summary(summary: Mapping[str, Any], points: Sequence[Point]) -> dict[str, Any]:
    """Metric → newest value with its step, and the least and greatest ever seen."""
    result = dict(summary)
    for point in points:
        old = result.get(point.key)
        low = min(old["min"], point.value) if old else point.value
        high = max(old["max"], point.value) if old else point.value
        newest = old if old and old["step"] > point.step else {"value": point.value, "step": point.step}
        result[point.key] = {"value": newest["value"], "step": newest["step"], "min": low, "max": high}
    return result


def add_artifact(
    run_id: str, name: str, *, manifest_json: str, source_url: str, etags: Sequence[str] = ()
) -> None:
    with transaction.atomic():
        run = Run.objects.select_related("experiment").get(id=run_id)
        manifest = artifacts.register_json(manifest_json, run.experiment.team_id, source_url, etags)
        RunArtifact.objects.update_or_create(
            run=run, name=name[:200], defaults={"manifest": manifest, "created_ms": now_ms()}
        )


def follow_jobs(jobs: Sequence[JobValue]) -> None:
    """Gives the runs of these jobs their state and times, and ends the runs below those that have ended."""
    now = now_ms()
    columns = {
        job.id: {
            "state": of_job(job.state),
            "started_ms": job.started_ms,
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
