"""Histograms, texts and media of event files as the rich values of a run."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from trainmaster.event_files.reading import Histogram, Media, Text, Value

MOST_TEXT, MOST_MEDIA_BYTES = 100_000, 10 << 20
_SUFFIXES = (
    (b"\x89PNG\r\n\x1a\n", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF8", ".gif"), (b"RIFF", ".wav"),
    (b"ID3", ".mp3"), (b"OggS", ".ogg"), (b"fLaC", ".flac"),
)  # fmt: skip


def rich_fields(value: Value) -> dict[str, Any] | None:
    """`kind`, `index` and either `document` or `data` and `suffix`; None for what no page shows."""
    match value:
        case Histogram():
            return {"kind": "histogram", "document": _histogram(value)}
        case Text():
            return {"kind": "text", "document": {"text": value.text[:MOST_TEXT]}}
        case Media():
            suffix = next((suffix for start, suffix in _SUFFIXES if value.data.startswith(start)), "")
            if not suffix or len(value.data) > MOST_MEDIA_BYTES:
                return None
            return {"kind": value.kind, "index": value.index, "data": value.data, "suffix": suffix}
    return None


def _histogram(histogram: Histogram) -> dict[str, Any]:
    """Bins without a width go into the one before them; edges have to ascend."""
    edges, counts = [histogram.edges[0]], list[int]()
    for (low, high), count in zip(pairwise(histogram.edges), histogram.counts, strict=True):
        if high > low:
            edges.append(high)
            counts.append(round(count))
        elif counts:
            counts[-1] += round(count)
    if not counts:  # all values are equal
        edges, counts = [edges[0] - 0.5, edges[0] + 0.5], [round(sum(histogram.counts))]
    return {"counts": counts, "edges": edges, "non_finite": 0}
