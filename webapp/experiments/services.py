"""What a run was made of, and the values it reports."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction

from platform_core.experiments import lineage
from platform_core.jobs.spec import JobSpec
from webapp.artifacts import services as artifacts
from webapp.base.identity import now_ms
from webapp.events import services as events
from webapp.experiments import metric_store
from webapp.experiments.metric_store import Point
from webapp.experiments.models import Experiment, Run, RunArtifact
from webapp.sockets import services as sockets

if TYPE_CHECKING:
    from webapp.jobs.models import Job

__all__ = ["Point", "add_artifact", "describe_run", "ingest", "make_run"]

DEFAULT_EXPERIMENT = "default"
METRIC_NAMES = 1_000  # of a run: each is a curve on its page


def make_run(job: Job, spec: JobSpec) -> Run:
    """The run of a freshly submitted job, inside the submit transaction."""
    experiment, _ = Experiment.objects.get_or_create(
        team_id=spec.team,
        name=spec.experiment or spec.project or DEFAULT_EXPERIMENT,
        defaults={"created_ms": now_ms()},
    )
    made_of = {
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
        experiment=experiment,
        parameters={**dict(spec.hyperparameters), "num_gpus": spec.num_gpus, "strategy": spec.strategy.value},
        tags=list(spec.tags),
        lineage=made_of,
        created_ms=job.submitted_ms,
    )


def describe_run(run_id: str, description: Mapping[str, Any]) -> None:
    """What the script told at its start: parameters, package versions, seed, the hardware it found."""
    with transaction.atomic():
        run = Run.objects.select_for_update().filter(id=run_id).first()
        if run is None:
            return
        parameters, reported, problems = lineage.reported(description)
        run.parameters = {**run.parameters, **parameters}
        run.lineage = {**run.lineage, **reported}
        run.save(update_fields=["parameters", "lineage"])
        if problems:
            _tell_left_out(run, problems)


def _tell_left_out(run: Run, problems: Sequence[str]) -> None:
    events.record("ReportLeftOut", f"job:{run.id}", actor="system", cause=f"Left out: {'; '.join(problems)}")


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
        run.save(update_fields=["summary", "ingested"])
        sockets.publish(f"job:{run_id}", {"points": _by_step(finite)})


def _names_beyond_the_limit(run: Run, points: Sequence[Point]) -> set[str]:
    new = sorted({point.key for point in points} - run.summary.keys())
    return set(new[max(0, METRIC_NAMES - len(run.summary)) :])


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
