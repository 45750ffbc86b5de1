"""A suite of evaluations: the job that measures a version of a model, and what it measures.

A suite file is a job file without what belongs to one evaluation or to a person, and with `metrics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from platform_core.jobs import spec as job_specs
from platform_core.jobs.definition import JobSpec
from platform_core.jobs.kind import JobKind
from platform_core.jobs.reader import Problem, SpecError, shown
from platform_core.registry.gates import Direction

PURPOSE = "evaluation"  # for which its dataset must be approved
MOST_METRICS = 64
LONGEST = 250  # of the name of a metric
# The platform sets the first ones for each evaluation. No secret: everybody may have a suite run.
_ELSEWHERE = {
    "model": "each evaluation has the version that it measures",
    "purpose": f"it is always {PURPOSE}",
    "experiment": "it is the name of the suite",
    "resume_from": "an evaluation begins anew",
    "kind": "an evaluation ends",
    "secrets": "a suite has none, since others than its author start it",
}


@dataclass(frozen=True, slots=True)
class SuiteSpec:
    job: JobSpec  # without a model
    metrics: tuple[tuple[str, Direction], ...]  # that every evaluation must have, and which of two is better


def parse(mapping: object) -> SuiteSpec:
    """The suite of a REST body or a YAML file; SpecError of suite_invalid with every problem if it is not sound."""
    if not isinstance(mapping, Mapping):
        raise _invalid([Problem("", f"a suite is a mapping of fields, not {shown(mapping)}")])
    problems = [
        Problem(name, f"{name} cannot be given in a suite: {why}")
        for name, why in _ELSEWHERE.items()
        if mapping.get(name)
    ]
    metrics = _metrics(mapping.get("metrics"), problems)
    fields = {key: value for key, value in mapping.items() if key != "metrics" and key not in _ELSEWHERE}
    fields["experiment"] = fields.get("name", "")
    if fields.get("dataset"):
        fields["purpose"] = PURPOSE
    try:
        job = job_specs.parse(fields)
    except SpecError as error:
        raise _invalid([*problems, *error.problems]) from error
    if problems:
        raise _invalid(problems)
    return SuiteSpec(job, metrics)


def as_mapping(suite: SuiteSpec) -> dict[str, Any]:
    return {
        "job": job_specs.as_mapping(suite.job),
        "metrics": {name: way.value for name, way in suite.metrics},
    }


def load(mapping: Mapping[str, Any]) -> SuiteSpec:
    """The suite that `as_mapping` wrote."""
    metrics = tuple((name, Direction(way)) for name, way in mapping["metrics"].items())
    return SuiteSpec(job_specs.restore(mapping["job"]), metrics)


def job_of(suite: SuiteSpec, number: int, model: str) -> JobSpec:
    """The job that measures `model`, NAME:VERSION, by this version of the suite."""
    name = f"{suite.job.name} v{number} of {model}"
    return replace(suite.job, name=name[:120], model=model, kind=JobKind.BATCH)


def missing(suite: SuiteSpec, measured: Mapping[str, object]) -> str:
    """Why results lack what the suite promises; "" where they have it."""
    absent = [name for name, _ in suite.metrics if name not in measured]
    return f"the results have no metric {', '.join(absent)}" if absent else ""


def _metrics(value: object, problems: list[Problem]) -> tuple[tuple[str, Direction], ...]:
    if not isinstance(value, Mapping) or not 0 < len(value) <= MOST_METRICS:
        sentence = f"metrics must name 1 to {MOST_METRICS} metrics with which is better: {{accuracy: higher}}"
        problems.append(Problem("metrics", sentence))
        return ()
    rows = []
    for name, way in value.items():
        if not isinstance(name, str) or not 0 < len(name) <= LONGEST or not name.isprintable():
            sentence = f"{shown(name)} cannot name a metric; it has 1 to {LONGEST} printable characters"
            problems.append(Problem("metrics", sentence))
        elif way not in tuple(Direction):
            sentence = (
                f"metrics.{str(name)[:60]} is {shown(way)}; it must be higher or lower, which is better"
            )
            problems.append(Problem(f"metrics.{name}", sentence))
        else:
            rows.append((name, Direction(way)))
    return tuple(rows)


def _invalid(problems: list[Problem]) -> SpecError:
    return SpecError(tuple(problems), "suite_invalid")
