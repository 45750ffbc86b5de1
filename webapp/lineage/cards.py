"""The model card of a version, with what it was made from."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from platform_core.lineage.graph import Item, Kind
from platform_core.units import plural
from webapp.accounts.permissions import Actor
from webapp.datasets import queries as datasets
from webapp.jobs import queries as jobs
from webapp.lineage import queries
from webapp.lineage.items import Description
from webapp.registry import services as registry
from webapp.registry.services import plain

if TYPE_CHECKING:
    from webapp.registry.models import ModelVersion

SHOWN = {Kind.DATASET: "dataset", Kind.RUN: "run", Kind.CHECKPOINT: "checkpoint", Kind.MODEL: "model"}
MOST_ORIGINS = 100


def model_card(actor: Actor, version: ModelVersion) -> str:
    """In Markdown, as the reader may see it: of its origins, only those of their teams. Raises not_found."""
    return registry.model_card(version, list(_origin(actor, version)))


def _origin(actor: Actor, version: ModelVersion) -> Iterator[str]:
    family = queries.family(actor, Item(Kind.MODEL, version.id))
    depths = sorted((depth, item) for item, depth in family.up.depths.items() if depth and item.kind in SHOWN)
    for _, item in depths[:MOST_ORIGINS]:
        yield f"- {_of(family.described[item])}"
    if not depths:
        yield f"Registered from {plain(version.source)}; the platform does not know what it was trained on."
    if family.hidden:
        yield f"- {plural(family.hidden, 'item')} of other teams"
    if version.job is not None:
        yield from _job(version.job_id)


def _of(one: Description) -> str:
    text = f"{SHOWN[one.item.kind]} {plain(one.label)} of {plain(one.team)}, {_day(one.at_ms)}"
    if one.item.kind is Kind.DATASET and (licence := datasets.card(one.team, one.name).licence):
        text += f", licence {plain(licence)}"
    return text + (f", **{plain(one.recalled)}**" if one.recalled else "")


def _job(job_id: Any) -> Iterator[str]:
    job = jobs.find(job_id)
    if job is None:
        return
    yield f"- command `{shlex.join(job.spec['command']).replace('`', chr(39))}`"
    source = job.spec.get("git") or {}
    if source.get("url"):
        yield f"- code of {plain(source['url'])} at {plain(source.get('ref', ''))}"


def _day(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"
