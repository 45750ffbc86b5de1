"""Runs as event files: one folder a run, with its curves, images, sounds, histograms, texts and tables.

Values are kept as 32-bit numbers, which is what event files have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trainmaster.client import Client
from trainmaster.event_files.writing import EventWriter
from trainmaster.exporters.runs import ExportedRun, keys_of, points_of
from trainmaster.exporters.values import ExportedValue, values_of

_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")


def write(client: Client, run: ExportedRun, folder: Path) -> int:
    """Replaces what an earlier export left of this run; how many points it has."""
    place = folder / f"{_UNSAFE.sub('_', run.name)[:80]}-{run.id[-8:]}"
    for old in place.glob("events.out.tfevents.*.trainmaster.0.0"):
        old.unlink()
    writer = EventWriter(place, int(run.fields.get("created_ms") or 0))
    count = 0
    for key in keys_of(client, run):
        for points in points_of(client, run, key):
            for step, value, at_ms in points:
                writer.scalars(step, at_ms, {key: value})
            count += len(points)
    for rich in values_of(client, run):
        _rich(writer, rich)
    writer.close()
    return count


def _rich(writer: EventWriter, value: ExportedValue) -> None:
    """Event files have no tables: one becomes a text, as Markdown."""
    key = value.key if value.index == 0 else f"{value.key}/{value.index}"
    place, document = (key, value.step, value.at_ms), value.document
    if document is None:
        writer.media(*place, value.kind, value.data)
    elif value.kind == "histogram":
        writer.histogram(*place, document["edges"], document["counts"])
    elif value.kind == "table":
        writer.text(*place, _markdown(document))
    else:
        writer.text(*place, str(document["text"]))


def _markdown(table: Mapping[str, Any]) -> str:
    rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")
