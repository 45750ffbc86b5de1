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
    kept = {name: str(original.lineage[name]) for name in _KEPT if original.lineage.get(name)}
    spec = specification.restore(original.spec)
    job, _ = services.accept(
        actor, spec, idempotency_key=idempotency_key, lineage={**kept, "repeats": original.id},
        cloned_from=original.id,
    )  # fmt: skip
    return job
