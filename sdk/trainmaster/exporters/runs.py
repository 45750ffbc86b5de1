"""Runs read back over REST, one metric after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from trainmaster.client import Client
from trainmaster.tracking.batch import real

_PAGE_RUNS, _PAGE_POINTS = 1_000, 100_000

Point = tuple[int, float, int]  # step, value, at_ms


@dataclass(frozen=True, slots=True)
class ExportedRun:
    """The fields of a run as REST has them."""

    id: str
    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.fields.get("name") or self.id)


def runs_of(client: Client, experiment: int) -> Iterator[ExportedRun]:
    """All runs of an experiment that are not deleted."""
    cursor = ""
    while True:
        wanted = {"experiment": experiment, "limit": _PAGE_RUNS, **({"cursor": cursor} if cursor else {})}
        page = client.call("GET", "runs", params=wanted)
        for line in page["results"]:
            yield run_of(client, str(line["id"]))
        cursor = page.get("next") or ""
        if not cursor:
            return


def run_of(client: Client, run_id: str) -> ExportedRun:
    """Raises ClientError."""
    fields = client.call("GET", f"runs/{quote(run_id, safe='')}")
    return ExportedRun(str(fields["id"]), fields)


def keys_of(client: Client, run: ExportedRun) -> list[str]:
    return sorted(client.call("GET", f"runs/{run.id}/metrics")["metrics"])


def points_of(client: Client, run: ExportedRun, key: str) -> Iterator[list[Point]]:
    """In the order of steps, a page at a time."""
    cursor = ""
    while True:
        wanted = {"key": key, "limit": _PAGE_POINTS, **({"cursor": cursor} if cursor else {})}
        page = client.call("GET", f"runs/{run.id}/metrics/history", params=wanted)
        yield [(int(step), real(value), int(at_ms)) for step, value, at_ms in page["points"]]
        cursor = page.get("next") or ""
        if not cursor:
            return
