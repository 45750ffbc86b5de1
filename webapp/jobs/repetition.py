"""A job submitted once more as it was: the same code, data, image, settings and seed."""

from __future__ import annotations

from platform_core.errors import TrainmasterError
from platform_core.jobs import spec as specification
from webapp.accounts.permissions import Actor
from webapp.jobs import queries, services
from webapp.jobs.models import Job

_KEPT = ("git_commit", "git_branch", "git_remote", "git_diff", "submitted_from")


def run_again(actor: Actor, job_id: str, idempotency_key: str | None = None) -> Job:
    """The new job; its lineage names the one that it `repeats`.

    Raises TrainmasterError of not_found, and what accepting a job raises: the team may have lost a quota, a dataset
    or a secret meanwhile.
    """
    original = queries.find(job_id)
    if original is None:
        raise TrainmasterError("not_found", what=f"job {job_id}")
    spec = specification.restore(original.spec)
    job, _ = services.accept(
        actor, spec, idempotency_key=idempotency_key, lineage={**_origin(original), "repeats": original.id},
        cloned_from=original.id,
    )  # fmt: skip
    return job


def retrain(actor: Actor, job_id: str, spec: specification.JobSpec, idempotency_key: str) -> Job:
    """A job by the recipe of another one, with other data, so that it repeats nothing. Raises as `run_again` does."""
    original = queries.find(job_id)
    if original is None:
        raise TrainmasterError("not_found", what=f"job {job_id}")
    job, _ = services.accept(
        actor,
        spec,
        idempotency_key=idempotency_key,
        lineage=_origin(original),
        cloned_from=job_id,
        pinned=True,
    )
    return job


def _origin(job: Job) -> dict[str, str]:
    """Where its code came from."""
    return {name: str(job.lineage[name]) for name in _KEPT if job.lineage.get(name)}
