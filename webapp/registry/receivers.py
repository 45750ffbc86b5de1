"""A job that asks for a model must name a version that its team has and that is ready."""

from typing import Any

from platform_core.jobs.spec import JobSpec, Problem, SpecError
from webapp.registry import queries


def check_model(sender: Any, spec: JobSpec, **kwargs: Any) -> None:
    if spec.model and queries.named(spec.team, spec.model) is None:
        sentence = f"Team {spec.team} has no version {spec.model} that is ready; see the page of its models."
        raise SpecError((Problem("model", sentence),))
