"""What a TensorBoard may be opened on: a run, or the newest runs of an experiment."""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.urls import reverse

from platform_core.errors import TrainmasterError
from webapp.accounts.permissions import Actor
from webapp.experiments import queries
from webapp.experiments.models import Run

MOST_RUNS = 50  # of an experiment
_KEY = re.compile(r"(run|experiment)-([A-Za-z0-9_.-]{1,40})")


@dataclass(frozen=True, slots=True)
class Subject:
    title: str
    page: str  # its own address


def subject_of(actor: Actor, key: str) -> Subject:
    """Raises not_found, also for what the actor may not see."""
    kind, reference = _parts(key)
    if kind == "run":
        run = queries.find_run(actor, reference)
        return Subject(run.name, reverse("jobs:detail" if run.job_id else "runs:detail", args=[run.id]))
    experiment = queries.find_experiment(actor, _number(key, reference))
    return Subject(experiment.name, reverse("experiments:detail", args=[experiment.pk]))


def runs_of(key: str) -> list[Run]:
    """None of what was deleted."""
    kind, reference = _parts(key)
    if kind == "run":
        run = queries.run(reference)
        return [run] if run is not None else []
    if queries.find(_number(key, reference)) is None:
        return []
    return queries.runs(_number(key, reference))[:MOST_RUNS]


def exists(key: str) -> bool:
    """An experiment without runs still does."""
    kind, reference = _parts(key)
    return (
        queries.run(reference) is not None
        if kind == "run"
        else queries.find(_number(key, reference)) is not None
    )


def _parts(key: str) -> tuple[str, str]:
    match = _KEY.fullmatch(key)
    if match is None:
        raise TrainmasterError("not_found", what=f"TensorBoard {key[:60]}")
    return match[1], match[2]


def _number(key: str, reference: str) -> int:
    if not (reference.isascii() and reference.isdigit() and len(reference) < 19):
        raise TrainmasterError("not_found", what=f"TensorBoard {key[:60]}")
    return int(reference)
