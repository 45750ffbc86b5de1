"""A job that asks for a model or a serving target must name one that its team has."""

from typing import TYPE_CHECKING, Any

from platform_core.jobs.kind import JobKind
from platform_core.jobs.spec import JobSpec, Problem, SpecError
from platform_core.lineage.graph import Kind
from webapp.recalls import queries as recalls
from webapp.registry import exports, gates, queries

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion


def check_model(sender: Any, spec: JobSpec, **kwargs: Any) -> None:
    version = queries.named(spec.team, spec.model) if spec.model else None
    if spec.model and version is None:
        sentence = f"Team {spec.team} has no version {spec.model} that is ready; see the page of its models."
        raise SpecError((Problem("model", sentence),))
    if version is None or spec.kind is JobKind.SERVICE:  # a replica of what is served already goes on
        return
    if why := recalls.why(Kind.MODEL, version.id):
        raise SpecError((Problem("model", f"{spec.model} cannot be used: {why}."),))


def check_serving_target(sender: Any, spec: JobSpec, **kwargs: Any) -> None:
    name = spec.serving_target
    if name and queries.serving_constraints(spec.team, name) is None:
        known = ", ".join(row.name for row in exports.targets([spec.team])) or "none"
        sentence = f"Team {spec.team} has no serving target {name}; it has {known}."
        raise SpecError((Problem("serving_target", sentence),))


def validate(sender: Any, version: "ModelVersion", **kwargs: Any) -> None:
    gates.validate(version)


def read_exports(sender: Any, version: "ModelVersion", **kwargs: Any) -> None:
    exports.ask_for_report(version)
