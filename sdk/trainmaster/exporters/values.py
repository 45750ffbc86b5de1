"""The rich values of a run read back over REST: images, sounds, tables, histograms and texts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from trainmaster.client import Client
from trainmaster.exporters.runs import ExportedRun

_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")
_SUFFIXES = {
    "image/png": ".png", "image/jpeg": ".jpg", "image/gif": ".gif", "image/webp": ".webp",
    "audio/mpeg": ".mp3", "audio/ogg": ".ogg", "audio/flac": ".flac", "audio/wav": ".wav",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ExportedValue:
    """With a document, or with the bytes of a file."""

    id: int
    key: str
    step: int
    index: int
    kind: str
    at_ms: int
    caption: str
    document: Mapping[str, Any] | None
    media_type: str = ""
    data: bytes = field(default=b"", repr=False)

    @property
    def file_name(self) -> str:
        """With the id, since two keys may differ in nothing else that a file system takes."""
        name = _UNSAFE.sub("_", self.key)[:80]
        return f"{name}-{self.step}-{self.index}-{self.id}{_SUFFIXES.get(self.media_type, '.bin')}"


def values_of(client: Client, run: ExportedRun) -> Iterator[ExportedValue]:
    """By key, step and index."""
    place = f"runs/{run.id}/values"
    for line in client.call("GET", place)["keys"]:
        key = str(line["key"])
        for step in client.call("GET", place, params={"key": key})["steps"]:
            for row in client.call("GET", place, params={"key": key, "step": step})["results"]:
                document = row["document"]
                yield ExportedValue(
                    int(row["id"]), key, int(row["step"]), int(row["index"]), str(row["kind"]), int(row["at_ms"]),
                    str(row["caption"]), document, str(row["media_type"]),
                    client.read(f"{place}/{row['id']}/file") if document is None else b"",
                )  # fmt: skip
