"""What the items of the graph are called, whose they are, and how they stand."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from platform_core.lineage.graph import Item, Kind
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.artifacts import queries as artifacts
from webapp.checkpoints import queries as checkpoints
from webapp.datasets import queries as datasets
from webapp.deployments import queries as deployments
from webapp.experiments import queries as runs
from webapp.recalls import queries as recalls
from webapp.registry import queries as registry
from webapp.serving import queries as serving

Ids = Collection[str]


@dataclass(frozen=True, slots=True)
class Description:
    item: Item
    label: str
    team: str
    owner: str  # username; "" where nobody is
    at_ms: int  # when it came to be
    state: str = ""
    name: str = ""  # of the dataset, model or endpoint, for its page
    recalled: str = ""  # why nothing may be made from it any more


def describe(items: Iterable[Item]) -> dict[Item, Description]:
    """Unknown items are left out: they were deleted, or are only a claim of a process outside the platform."""
    by_kind: dict[Kind, list[str]] = {}
    for item in items:
        by_kind.setdefault(item.kind, []).append(item.id)
    found = {one.item: one for kind, ids in by_kind.items() for one in _DESCRIBERS[kind](ids)}
    marks = recalls.marks(found)
    return {item: replace(one, recalled=marks.get(item, "")) for item, one in found.items()}


def sees(actor: Actor, one: Description) -> bool:
    """Whether the actor may know of it: of their own teams, and datasets that were granted to them."""
    if permissions.may(actor, "team.view", one.team):
        return True
    return one.item.kind is Kind.DATASET and datasets.sees(actor, one.team, one.name)


def _datasets(ids: Ids) -> Iterator[Description]:
    for row in datasets.rows_of(ids):
        label, owner = f"{row.name} v{row.version}", row.created_by.username
        yield Description(
            Item(Kind.DATASET, row.id), label, row.team_id, owner, row.created_ms, row.state, row.name
        )


def _code(ids: Ids) -> Iterator[Description]:
    names = artifacts.names(ids, None)
    for manifest, team, created_ms in artifacts.teams_of(ids):
        yield Description(Item(Kind.CODE, manifest), names.get(manifest, manifest), team, "", created_ms)


def _runs(ids: Ids) -> Iterator[Description]:
    for row in runs.rows_of(ids):
        yield Description(
            Item(Kind.RUN, row.id),
            row.name,
            row.experiment.team_id,
            row.owner_name,
            row.created_ms,
            row.state,
        )


def _checkpoints(ids: Ids) -> Iterator[Description]:
    for row in checkpoints.rows_of(ids):
        state = "deleted" if row.deleted_ms is not None else "damaged" if row.damaged else ""
        label, owner = f"{row.job.name}, step {row.step:,}", row.job.user.username
        yield Description(
            Item(Kind.CHECKPOINT, row.id), label, row.job.team_id, owner, row.saved_ms, state, row.job_id
        )


def _models(ids: Ids) -> Iterator[Description]:
    for row in registry.origins(versions=ids):
        state = (
            "deleted" if row.deleted_ms is not None else row.stage if row.stage != "candidate" else row.state
        )
        yield Description(
            Item(Kind.MODEL, row.id), str(row), row.model.team_id, row.created_by.username, row.created_ms, state,
            row.model.name,
        )  # fmt: skip


def _evaluations(ids: Ids) -> Iterator[Description]:
    for row in registry.evaluated(evaluations=ids):
        model = row.version.model
        yield Description(
            Item(Kind.EVALUATION, str(row.pk)), f"{row.suite} of {row.version}", model.team_id,
            row.evaluated_by.username, row.evaluated_ms, "", model.name,
        )  # fmt: skip


def _deployments(ids: Ids) -> Iterator[Description]:
    for row in deployments.bringing(deployments=ids):
        yield Description(
            Item(Kind.DEPLOYMENT, row.id), f"{row.model_version} to nodes", row.team_id, row.user.username,
            row.created_ms, row.state,
        )  # fmt: skip


def _endpoints(ids: Ids) -> Iterator[Description]:
    for row in serving.serving(endpoints=ids):
        yield Description(
            Item(Kind.ENDPOINT, row.id), row.name, row.team_id, row.user.username, row.created_ms, row.state,
            row.name,
        )  # fmt: skip


_DESCRIBERS: Mapping[Kind, Callable[[Ids], Iterator[Description]]] = {
    Kind.DATASET: _datasets, Kind.CODE: _code, Kind.RUN: _runs, Kind.CHECKPOINT: _checkpoints, Kind.MODEL: _models,
    Kind.EVALUATION: _evaluations, Kind.DEPLOYMENT: _deployments, Kind.ENDPOINT: _endpoints,
}  # fmt: skip
