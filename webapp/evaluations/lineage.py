"""What a version was trained on: the datasets of the job that made it, and of the jobs and models it began from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from platform_core.evaluations.contamination import Finding, compare
from webapp.artifacts import queries as artifacts
from webapp.checkpoints import queries as checkpoints
from webapp.datasets import queries as datasets
from webapp.jobs import queries as jobs
from webapp.registry import queries as registry

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion

MOST_JOBS = 1_000  # that one version comes from


class _Unknown(Exception):
    """Something of what the version was trained on is not known; the message is why."""


def contamination_of(version: ModelVersion, dataset: str) -> Finding:
    """Which files of this evaluation snapshot were trained on."""
    try:
        evaluation = _files(dataset, "the suite has no dataset")
        training = {snapshot: _files(snapshot, "") for snapshot in sorted(_trained_on(version))}
    except _Unknown as unknown:
        return Finding(None, problem=str(unknown))
    return compare(evaluation, training)


def _trained_on(version: ModelVersion) -> set[str]:
    """Snapshots, by id."""
    if version.job_id is None:
        raise _Unknown(f"no job of this platform made {version}")
    snapshots: set[str] = set()
    waiting, seen = [version.job_id], {version.job_id}
    while waiting:
        if len(seen) > MOST_JOBS:
            raise _Unknown(f"{version} comes from more than {MOST_JOBS:,} jobs")
        snapshot, before = _of_job(waiting.pop())
        snapshots.add(snapshot)
        waiting += before - seen
        seen |= before
    return snapshots


def _of_job(job_id: str) -> tuple[str, set[str]]:
    """The snapshot that a job read, and the jobs whose weights it began with."""
    job = jobs.find(job_id)
    if job is None:
        raise _Unknown(f"job {job_id} was deleted")
    spec: dict[str, Any] = job.spec
    if not spec.get("dataset"):
        raise _Unknown(f"job {job_id} names no dataset, so what it read is not known")
    before = set()
    if checkpoint_id := spec.get("resume_from"):
        checkpoint = checkpoints.find(checkpoint_id)
        if checkpoint is None:
            raise _Unknown(f"checkpoint {checkpoint_id}, with which job {job_id} began, was deleted")
        before.add(checkpoint.job_id)
    if model := spec.get("model"):
        base = registry.named(job.team_id, model)
        if base is None or base.job_id is None:
            raise _Unknown(f"no job of this platform made {model}, with which job {job_id} began")
        before.add(base.job_id)
    return spec["dataset"], before


def _files(snapshot_id: str, otherwise: str) -> list[dict[str, Any]]:
    if not snapshot_id:
        raise _Unknown(otherwise)
    row = datasets.snapshot(snapshot_id)
    if row is None or row.manifest_id is None:
        raise _Unknown(f"the files of dataset {snapshot_id} are not known any more")
    return artifacts.file_list(row.manifest_id)
