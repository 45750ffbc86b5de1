"""What was made from what, looked up for many items of one kind at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from platform_core.lineage.graph import Direction, Edge, Item, Kind
from webapp.checkpoints import queries as checkpoints
from webapp.datasets import queries as datasets
from webapp.deployments import queries as deployments
from webapp.experiments import queries as runs
from webapp.jobs import queries as jobs
from webapp.registry import queries as registry
from webapp.serving import queries as serving

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion

Ids = Collection[str]


def neighbours(items: Iterable[Item], direction: Direction) -> list[Edge]:
    """The edges to what these items come from directly, or to what was made from them: a few queries a kind."""
    by_kind: dict[Kind, list[str]] = {}
    for item in items:
        by_kind.setdefault(item.kind, []).append(item.id)
    lookups = _UP if direction is Direction.UPSTREAM else _DOWN
    return [edge for kind, ids in by_kind.items() for edge in lookups[kind](ids)]


def _edge(source: Kind, source_id: str, derived: Kind, derived_id: str) -> Edge:
    return Edge(Item(source, source_id), Item(derived, derived_id))


def _from_dataset(ids: Ids) -> Iterator[Edge]:
    for base, version in datasets.derivations(of=ids):
        yield _edge(Kind.DATASET, base, Kind.DATASET, version)
    for inputs in jobs.made_of("dataset", ids):
        yield _edge(Kind.DATASET, inputs.dataset, Kind.RUN, inputs.job)
    for run, snapshot in runs.using_datasets(ids):
        yield _edge(Kind.DATASET, snapshot, Kind.RUN, run)


def _to_dataset(ids: Ids) -> Iterator[Edge]:
    for base, version in datasets.derivations(to=ids):
        yield _edge(Kind.DATASET, base, Kind.DATASET, version)


def _from_code(ids: Ids) -> Iterator[Edge]:
    for inputs in jobs.made_of("code", ids):
        yield _edge(Kind.CODE, inputs.code, Kind.RUN, inputs.job)


def _from_run(ids: Ids) -> Iterator[Edge]:
    saved = checkpoints.savers(jobs=ids)
    for job, checkpoint in saved:
        yield _edge(Kind.RUN, job, Kind.CHECKPOINT, checkpoint)
    known = {checkpoint for _, checkpoint in saved}
    for version in registry.origins(runs=ids):
        if version.source not in known:  # through the checkpoint, where it was made from one
            yield _edge(Kind.RUN, _run_of(version), Kind.MODEL, version.id)
    for evaluation in registry.evaluated(jobs=ids):
        yield _edge(Kind.RUN, str(evaluation.job_id), Kind.EVALUATION, str(evaluation.pk))


def _to_run(ids: Ids) -> Iterator[Edge]:
    made_of = jobs.inputs_of(ids)
    versions = registry.by_reference((inputs.team, inputs.model) for inputs in made_of if inputs.model)
    for inputs in made_of:
        named = {
            Kind.CODE: inputs.code,
            Kind.DATASET: inputs.dataset,
            Kind.CHECKPOINT: inputs.resume_from,
            Kind.MODEL: versions.get((inputs.team, inputs.model), ""),
        }
        yield from (_edge(kind, source, Kind.RUN, inputs.job) for kind, source in named.items() if source)
    for run, snapshot in runs.datasets_of(ids):
        yield _edge(Kind.DATASET, snapshot, Kind.RUN, run)


def _from_checkpoint(ids: Ids) -> Iterator[Edge]:
    for inputs in jobs.made_of("resume_from", ids):
        yield _edge(Kind.CHECKPOINT, inputs.resume_from, Kind.RUN, inputs.job)
    for version in registry.origins(checkpoints=ids):
        yield _edge(Kind.CHECKPOINT, version.source, Kind.MODEL, version.id)


def _to_checkpoint(ids: Ids) -> Iterator[Edge]:
    for job, checkpoint in checkpoints.savers(checkpoints=ids):
        yield _edge(Kind.RUN, job, Kind.CHECKPOINT, checkpoint)


def _from_model(ids: Ids) -> Iterator[Edge]:
    for evaluation in registry.evaluated(versions=ids):
        yield _edge(Kind.MODEL, evaluation.version_id, Kind.EVALUATION, str(evaluation.pk))
    for deployment in deployments.bringing(versions=ids):
        yield _edge(Kind.MODEL, deployment.model_version_id, Kind.DEPLOYMENT, deployment.id)
    for endpoint in serving.serving(versions=ids):
        yield from (
            _edge(Kind.MODEL, version, Kind.ENDPOINT, endpoint.id)
            for version in {endpoint.stable_id, endpoint.canary_id or ""} & set(ids)
        )
    by_team: dict[str, dict[str, str]] = {}
    for version in registry.origins(versions=ids):
        names = by_team.setdefault(version.model.team_id, {})
        names[f"{version.model.name}:{version.version}"] = version.id
    for team, names in by_team.items():
        for inputs in jobs.made_of("model", names, team):
            yield _edge(Kind.MODEL, names[inputs.model], Kind.RUN, inputs.job)


def _to_model(ids: Ids) -> Iterator[Edge]:
    versions = registry.origins(versions=ids)
    known = {row.id for row in checkpoints.rows_of(version.source for version in versions)}
    for version in versions:
        if version.source in known:
            yield _edge(Kind.CHECKPOINT, version.source, Kind.MODEL, version.id)
        elif _run_of(version):
            yield _edge(Kind.RUN, _run_of(version), Kind.MODEL, version.id)


def _run_of(version: ModelVersion) -> str:
    return version.run_id or version.job_id or ""


def _to_evaluation(ids: Ids) -> Iterator[Edge]:
    for evaluation in registry.evaluated(evaluations=ids):
        yield _edge(Kind.MODEL, evaluation.version_id, Kind.EVALUATION, str(evaluation.pk))
        if evaluation.job_id:
            yield _edge(Kind.RUN, evaluation.job_id, Kind.EVALUATION, str(evaluation.pk))


def _to_deployment(ids: Ids) -> Iterator[Edge]:
    for deployment in deployments.bringing(deployments=ids):
        yield _edge(Kind.MODEL, deployment.model_version_id, Kind.DEPLOYMENT, deployment.id)


def _to_endpoint(ids: Ids) -> Iterator[Edge]:
    for endpoint in serving.serving(endpoints=ids):
        for version in {endpoint.stable_id, endpoint.canary_id} - {None}:
            yield _edge(Kind.MODEL, str(version), Kind.ENDPOINT, endpoint.id)


def _nothing(ids: Ids) -> Iterator[Edge]:
    return iter(())


_DOWN: Mapping[Kind, Callable[[Ids], Iterator[Edge]]] = {
    Kind.DATASET: _from_dataset, Kind.CODE: _from_code, Kind.RUN: _from_run, Kind.CHECKPOINT: _from_checkpoint,
    Kind.MODEL: _from_model, Kind.EVALUATION: _nothing, Kind.DEPLOYMENT: _nothing, Kind.ENDPOINT: _nothing,
}  # fmt: skip
_UP: Mapping[Kind, Callable[[Ids], Iterator[Edge]]] = {
    Kind.DATASET: _to_dataset, Kind.CODE: _nothing, Kind.RUN: _to_run, Kind.CHECKPOINT: _to_checkpoint,
    Kind.MODEL: _to_model, Kind.EVALUATION: _to_evaluation, Kind.DEPLOYMENT: _to_deployment,
    Kind.ENDPOINT: _to_endpoint,
}  # fmt: skip
