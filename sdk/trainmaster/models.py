"""Registered models from Python: aliases, tags, stages, cards and comparisons of versions.

with Client(url, token) as client:
    version = client.register_version("mlp", team="vision", manifest=client.upload("model", "vision", "mlp", files))
    models = Models(client)
    models.edit_version("vision", "mlp", version.version, licence="MIT", tags={"data": "2026-11"})
    models.set_alias("vision", "mlp", "challenger", version.version)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from trainmaster.answers import Answer, ModelVersion
from trainmaster.client import Client


@dataclass(frozen=True, slots=True)
class Model(Answer):
    team: str
    name: str
    description: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, int] = field(default_factory=dict)  # alias → version
    versions: Sequence[int] = ()  # the newest first
    created_ms: int | None = None
    changed_ms: int | None = None


@dataclass(frozen=True, slots=True)
class VersionComparison(Answer):
    before: int | None = None  # None: the model has fewer than two versions
    after: int | None = None
    sections: Sequence[Mapping[str, Any]] = ()  # title and lines, each with name, before, after and change


class Models:
    """The models of a platform; the methods raise what those of `Client` raise."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def show(self, team: str, name: str) -> Model:
        return Model.of(self._client.call("GET", _path(team, name)))

    def edit(self, team: str, name: str, **fields: Any) -> Model:
        """`description` and `tags`; a tag that is None is taken away, tags that are left out stay."""
        return Model.of(self._client.call("PATCH", _path(team, name), json=fields))

    def version(self, team: str, name: str, number: int) -> ModelVersion:
        return ModelVersion.of(self._client.call("GET", _path(team, name, number)))

    def edit_version(self, team: str, name: str, number: int, **fields: Any) -> ModelVersion:
        """`description`, `tags`, `licence`, `card` (Markdown) and `signature`."""
        return ModelVersion.of(self._client.call("PATCH", _path(team, name, number), json=fields))

    def set_alias(self, team: str, name: str, alias: str, number: int) -> Model:
        """Takes the alias from the version that had it; champion and production ask the gate of the version."""
        path = f"{_path(team, name)}/aliases/{quote(alias, safe='')}"
        return Model.of(self._client.call("PUT", path, json={"version": number}))

    def delete_alias(self, team: str, name: str, alias: str) -> Model:
        return Model.of(self._client.call("DELETE", f"{_path(team, name)}/aliases/{quote(alias, safe='')}"))

    def set_stage(
        self,
        team: str,
        name: str,
        number: int,
        stage: str,
        *,
        archive_others: bool = False,
        override: str = "",
    ) -> ModelVersion:
        """Through the gate. `override` is the reason of a platform admin to pass it all the same."""
        body = {"stage": stage, "archive_others": archive_others, "override": override}
        return ModelVersion.of(self._client.call("PUT", f"{_path(team, name, number)}/stage", json=body))

    def card(self, team: str, name: str, number: int) -> str:
        """The card of a version, in Markdown."""
        return str(self._client.call("GET", f"{_path(team, name, number)}/card")["markdown"])

    def compare(
        self, team: str, name: str, before: int | None = None, after: int | None = None
    ) -> VersionComparison:
        """By default the version in production and the newest one."""
        given = {name: str(number) for name, number in (("a", before), ("b", after)) if number is not None}
        return VersionComparison.of(self._client.call("GET", f"{_path(team, name)}/comparison", params=given))


def _path(team: str, name: str, number: int | None = None) -> str:
    path = f"models/{quote(team, safe='')}/{quote(name, safe='')}"
    return path if number is None else f"{path}/versions/{number}"
