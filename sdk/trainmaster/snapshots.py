"""Calls about one snapshot of a dataset, and requests to use a dataset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from trainmaster.answers import Snapshot
from trainmaster.client import Client
from trainmaster.uploads import Earlier


def snapshot(client: Client, snapshot_id: str) -> Snapshot:
    return Snapshot.of(client.call("GET", _address(snapshot_id)))


def act(client: Client, snapshot_id: str, verb: str) -> Snapshot:
    """`verb`: check compares its source with it, resume goes on with a registration that failed."""
    return Snapshot.of(client.call("POST", f"{_address(snapshot_id)}/{verb}"))


def files(client: Client, snapshot_id: str) -> list[dict[str, Any]]:
    """Path, bytes and SHA-256 of every file, by path."""
    found: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page: Any = client.call("GET", f"{_address(snapshot_id)}/files", params={"cursor": cursor})
        found += page["results"]
        cursor = page["next"] or ""
        if not cursor:
            return found


def newest_upload(client: Client, team: str, name: str) -> Earlier | None:
    """The files of the newest snapshot of this dataset that was uploaded."""
    for known in client.datasets(team=team, name=name):
        if known.manifest and not known.source:
            return Earlier(
                known.manifest, {file["sha256"]: file["bytes"] for file in files(client, known.id)}
            )
    return None


def difference(client: Client, before: str, after: str) -> dict[str, Any]:
    """Paths that were added, removed and changed, and how much is unchanged."""
    answer: Any = client.call("GET", f"{_address(before)}/difference/{quote(after, safe='')}")
    return dict(answer)


def request_access(client: Client, asked: Mapping[str, str]) -> dict[str, Any]:
    """A use of a dataset: dataset_team, dataset, team, purpose, project, reason."""
    answer: Any = client.call("POST", "dataset-access", json=dict(asked))
    return dict(answer)


def _address(snapshot_id: str) -> str:
    return f"dataset-snapshots/{quote(snapshot_id, safe='')}"
