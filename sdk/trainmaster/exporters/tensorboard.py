"""Runs as event files: one folder a run, with its curves, images, sounds, histograms, texts and tables.

Values are kept as 32-bit numbers, which is what event files have.
"""

from __future__ import annotations

import re
from pathlib import Path

from trainmaster.client import Client
from trainmaster.event_files.writing import EventWriter
from trainmaster.exporters.runs import ExportedRun, keys_of, points_of
from trainmaster.exporters.values import values_of

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
        key = rich.key if rich.index == 0 else f"{rich.key}/{rich.index}"
        content = rich.data if rich.document is None else rich.document
        writer.value(key, rich.step, rich.at_ms, rich.kind, content)
    writer.close()
    return count
