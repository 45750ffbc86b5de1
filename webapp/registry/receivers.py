"""A job that asks for a model must name a version that its team has and that is ready."""

from typing import Any

from platform_core.jobs.kind import JobKind
from platform_core.jobs.spec import JobSpec, Problem, SpecError
from platform_core.lineage.graph import Kind
from webapp.recalls import queries as recalls
from webapp.registry import queries


def check_model(sender: Any, spec: JobSpec, **kwargs: Any) -> None:
    version = queries.named(spec.team, spec.model) if spec.model else None
    if spec.model and version is None:
        sentence = f"Team {spec.team} has no version {spec.model} that is ready; see the page of its models."
        raise SpecError((Problem("model", sentence),))
    if version is None or spec.kind is JobKind.SERVICE:  # a replica of what is served already goes on
        return
    if why := recalls.why(Kind.MODEL, version.id):
        raise SpecError((Problem("model", f"{spec.model} cannot be used: {why}."),))
