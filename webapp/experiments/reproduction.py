"""A job that repeats another one, beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from platform_core.experiments import reproduction as core
from platform_core.experiments.names import is_metric
from platform_core.experiments.reproduction import MadeOf, Metric, Subject
from webapp.accounts.permissions import Actor, may
from webapp.experiments import queries
from webapp.experiments.models import Run
from webapp.jobs import queries as jobs

if TYPE_CHECKING:
    from webapp.jobs.models import Job

# Not of the making: names, who may run it when, and what follows from the other subjects.
_NOT_SETTINGS = (
    "name",
    "team",
    "project",
    "tags",
    "experiment",
    "priority",
    "code",
    "git",
    "dataset",
    "container_image",
)


@dataclass(frozen=True, slots=True)
class Reproduction:
    original: Job
    subjects: tuple[Subject, ...]
    metrics: tuple[Metric, ...]
    sentence: str


def of_job(actor: Actor, job: Job) -> Reproduction | None:
    """None for a job that repeats none, or one that the actor may not see."""
    original = jobs.find(str(job.lineage.get("repeats") or ""))
    if original is None or not may(actor, "job.view", original.team_id):
        return None
    before, after = (queries.run(one.id) for one in (original, job))
    subjects = core.subjects(_made_of(original, before), _made_of(job, after))
    metrics = core.metrics(_last(before), _last(after))
    return Reproduction(original, subjects, metrics, core.sentence(subjects, metrics))


def _made_of(job: Job, run: Run | None) -> MadeOf:
    lineage: Mapping[str, Any] = {**job.lineage, **(run.lineage if run else {})}
    packages = lineage.get("reported_packages")
    return MadeOf(
        code=_texts({"bundle": job.spec.get("code"), "commit": lineage.get("git_commit"),
                     "uncommitted changes": _digest(lineage.get("git_diff"))}),
        data=_texts({"dataset": job.spec.get("dataset"), "resumed from": job.spec.get("resume_from")}),
        image=_texts({"image": job.spec.get("container_image")}),
        packages=_texts(packages if isinstance(packages, Mapping) else {}),
        hardware=_texts({"GPU type": job.gpu_type, "GPUs": _sizes(job),
                         "machine": lineage.get("reported_hardware")}),
        settings=_texts({name: value for name, value in job.spec.items() if name not in _NOT_SETTINGS}),
    )  # fmt: skip


def _sizes(job: Job) -> str:
    """How many GPUs it ran with; an elastic job may change that from attempt to attempt."""
    sizes = jobs.sizes(job.id) or [job.num_gpus]
    return ", then ".join(str(size) for size, _ in groupby(sizes))


def _digest(text: Any) -> str:
    """Stands for a text that is too long to show."""
    return f"sha256 {hashlib.sha256(str(text).encode()).hexdigest()[:12]}" if text else ""


def _texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Numbers and lists as JSON has them: a row that was just made may hold what the database gives back otherwise."""
    texts = {
        str(name): value if isinstance(value, str) else json.dumps(value, sort_keys=True)
        for name, value in values.items()
    }
    return {name: text for name, text in texts.items() if text not in ("", "null", "[]", "{}")}


def _last(run: Run | None) -> dict[str, float]:
    return {} if run is None else {key: row.last for key, row in run.summaries.items() if is_metric(key)}
