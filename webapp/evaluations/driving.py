"""A round of one evaluation: submit its job, follow it, and keep what it measured. Any step may be repeated."""

from __future__ import annotations

import json
from typing import Any

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.evaluations import contamination, validation
from platform_core.evaluations import suite as suites
from platform_core.evaluations.states import SETTLED, EvaluationState, follow
from platform_core.jobs.states import JobState
from trainmaster.evaluation import RESULTS, VALIDATION
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.base.identity import now_ms
from webapp.base.lease import Fence
from webapp.evaluations import lineage
from webapp.evaluations.models import EvaluationRun
from webapp.events import services as events
from webapp.experiments import services as experiments
from webapp.jobs import queries as jobs
from webapp.jobs import services as job_services
from webapp.registry import services as registry
from webapp.sockets import services as sockets

MOST_RESULTS, MOST_REPORT = 64 << 20, 16 << 20  # bytes
_TRY_AGAIN = frozenset({"quota_exceeded"})  # may be otherwise in a while


def drive(run_id: int, fence: Fence = transaction.atomic) -> None:
    rows = EvaluationRun.objects.select_related("suite__author", "version__model", "version__created_by")
    run = rows.get(pk=run_id)
    if run.state in SETTLED:
        return
    if run.version.deleted_ms is not None:
        _end(run, "the version was deleted", fence)
    elif run.job_id is None:
        _submit(run, fence)
    else:
        _follow(run, run.job_id, fence)


def _submit(run: EvaluationRun, fence: Fence) -> None:
    """As the author of the suite, whose rights are looked at anew; the key makes one job of many tries."""
    model = f"{run.version.model.name}:{run.version.version}"
    try:
        spec = suites.job_of(suites.load(run.suite.spec), run.suite.version, model)
        job, _ = job_services.accept(
            actor_of(run.suite.author),
            spec,
            idempotency_key=f"evaluation {run.pk}",
            lineage=run.suite.origin,
            pinned=True,
        )
    except TrainmasterError as error:
        if error.code in _TRY_AGAIN:
            _write(run, fence, reason=error.sentence)
        else:
            _end(run, f"{run.suite.author.username} cannot submit its job: {error.sentence}", fence)
    else:
        _write(run, fence, job_id=job.id, reason="")


def _follow(run: EvaluationRun, job_id: str, fence: Fence) -> None:
    report = jobs.reports([job_id]).get(job_id)
    if report is None:
        _end(run, f"its job {job_id} was deleted", fence)
        return
    state = JobState(report.state)
    following = follow(state)
    if following is not None:
        if following != run.state:
            _write(run, fence, state=following)
    elif state is not JobState.SUCCEEDED:
        _end(run, f"its job {report.state}: {report.reason or 'its page has why'}", fence)
    elif report.drained:
        _keep(run, job_id, fence)


def _keep(run: EvaluationRun, job_id: str, fence: Fence) -> None:
    try:
        lines = _handed_over(job_id, RESULTS, MOST_RESULTS)
        if lines is None:
            why = f"its job left no {RESULTS}; its script must call trainmaster.evaluation.report()"
            _end(run, why, fence)
            return
        weights = _validation(run, job_id)
        measurement = registry.Measurement(job_id, run.suite.version, _contamination(run))
        with fence():
            row = registry.keep_measured(
                actor_of(run.suite.author), run.version, run.suite.name, lines.splitlines(), measurement
            )
            if lacking := suites.missing(suites.load(run.suite.spec), row.metrics):
                raise TrainmasterError("request_invalid", what="the evaluation", why=lacking)
            if weights is not None:
                registry.keep_validation(run.version, {**weights, "job": job_id})
            _settle(run, EvaluationState.DONE, "")
    except TrainmasterError as error:
        _end(run, error.sentence, fence)


def _handed_over(job_id: str, name: str, most: int) -> str | None:
    """The text of a file that the script handed over; None where it did not."""
    data = experiments.handed_over(job_id, name, most)
    return None if data is None else data.decode(errors="replace")


def _contamination(run: EvaluationRun) -> dict[str, Any]:
    dataset = run.suite.spec["job"].get("dataset", "")
    return contamination.as_mapping(lineage.contamination_of(run.version, dataset))


def _validation(run: EvaluationRun, job_id: str) -> dict[str, Any] | None:
    text = _handed_over(job_id, VALIDATION, MOST_REPORT)
    if text is None:
        return None
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        report = {}
    report = report if isinstance(report, dict) else {}
    files = artifacts.file_list(run.version.manifest_id) if run.version.manifest_id else []
    tensors = report.get("tensors")
    return {
        "problem": validation.problem_of(report, files),
        "tensors": len(tensors) if isinstance(tensors, dict) else 0,
    }


def _end(run: EvaluationRun, why: str, fence: Fence) -> None:
    with fence():
        _settle(run, EvaluationState.FAILED, why)


def _settle(run: EvaluationRun, state: EvaluationState, reason: str) -> None:
    rows = EvaluationRun.objects.filter(pk=run.pk).exclude(state__in=list(SETTLED))
    if rows.update(state=state, reason=reason[:2000], ended_ms=now_ms()):
        model = run.version.model
        events.record(
            "EvaluationEnded", registry.subject_of(model), actor="system", team=model.team_id,
            cause=f"{run.version} by {run.suite}: {state}", data={"job": run.job_id, "reason": reason[:2000]},
            notify=(f"models:{model.team_id}",),
        )  # fmt: skip


def _write(run: EvaluationRun, fence: Fence, **columns: Any) -> None:
    if all(getattr(run, name) == value for name, value in columns.items()):
        return
    with fence():
        EvaluationRun.objects.filter(pk=run.pk).exclude(state__in=list(SETTLED)).update(**columns)
    sockets.publish(f"models:{run.version.model.team_id}")
