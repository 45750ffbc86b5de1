"""A job that resumes from a checkpoint must name one that its team has and that is still in the store."""

from typing import Any

from platform_core.jobs.spec import JobSpec, Problem, SpecError
from webapp.checkpoints import queries


def check_resume(sender: Any, spec: JobSpec, **kwargs: Any) -> None:
    if spec.resume_from and not queries.exists(spec.resume_from, spec.team):
        sentence = f"Team {spec.team} has no checkpoint {spec.resume_from} in the store; choose one on the job's page."
        raise SpecError((Problem("resume_from", sentence),))
