"""A job that resumes from a checkpoint must name one that its team has and that is still in the store."""

from typing import Any

from platform_core.jobs.spec import JobSpec, Problem, SpecError
from platform_core.lineage.graph import Kind
from webapp.checkpoints import queries
from webapp.recalls import queries as recalls


def check_resume(sender: Any, spec: JobSpec, **kwargs: Any) -> None:
    if not spec.resume_from:
        return
    if why := recalls.why(Kind.CHECKPOINT, spec.resume_from):
        raise SpecError((Problem("resume_from", f"Checkpoint {spec.resume_from} cannot be used: {why}."),))
    if not queries.exists(spec.resume_from, spec.team):
        sentence = f"Team {spec.team} has no checkpoint {spec.resume_from} in the store; choose one on the job's page."
        raise SpecError((Problem("resume_from", sentence),))
