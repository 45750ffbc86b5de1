"""The values of a run that are no numbers: which there are, what is in them, how large they may be. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.experiments import fields
from platform_core.json_values import storable

MAX_FILE_BYTES = 10 << 20
MAX_CELLS = 100_000  # of a table
MAX_BINS = 10_000
MAX_TEXT = 256 << 10
MAX_INDEX = 1_000  # values of one key at one step
MAX_CAPTION = 1_000
MAX_VALUES = 20_000  # of a run


class Kind(StrEnum):
    IMAGE = "image"
    TABLE = "table"
    HISTOGRAM = "histogram"
    TEXT = "text"
    AUDIO = "audio"


FILES = frozenset({Kind.IMAGE, Kind.AUDIO})

# The first bytes of what is kept and shown; anything else could be a page or a program.
_TYPES = {
    Kind.IMAGE: (
        (b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF87a", "image/gif"),
        (b"GIF89a", "image/gif"),
    ),
    Kind.AUDIO: (
        (b"ID3", "audio/mpeg"), (b"\xff\xfb", "audio/mpeg"), (b"OggS", "audio/ogg"), (b"fLaC", "audio/flac"),
    ),
}  # fmt: skip
_RIFF = {Kind.IMAGE: (b"WEBP", "image/webp"), Kind.AUDIO: (b"WAVE", "audio/wav")}


@dataclass(frozen=True, slots=True)
class RichValue:
    """One value of a key at a step; `index` counts the values that were logged together.

    Tables, histograms and texts have a `document`, images and sounds the bytes of a file and their `media_type`.
    """

    key: str
    step: int
    index: int
    kind: Kind
    at_ms: int
    caption: str = ""
    document: Mapping[str, Any] | None = None
    data: bytes = b""
    media_type: str = ""


def checked(
    *,
    key: Any,
    step: int,
    index: int,
    kind: Any,
    at_ms: int,
    caption: Any = "",
    document: Any = None,
    data: bytes = b"",
) -> RichValue:
    """Raises request_invalid or too_large with what is wrong."""
    if kind == "html":
        raise _invalid(
            "html", "HTML is not kept, since its scripts would run as the reader; log an image or a text"
        )
    if kind not in list(Kind):
        raise _invalid("kind", f"{kind!r:.60} is none of {', '.join(Kind)}")
    if not 0 <= index < MAX_INDEX:
        raise _invalid("index", f"{index} is not from 0 to {MAX_INDEX - 1}")
    if abs(step) >= 1 << 63 or not 0 <= at_ms < 1 << 53:
        raise _invalid("step or at_ms", f"step {step} or time {at_ms} is beyond what can be kept")
    kind = Kind(kind)
    shared = {
        "key": fields.key(key, "value"), "step": step, "index": index, "kind": kind, "at_ms": at_ms,
        "caption": fields.text(caption, "caption", MAX_CAPTION),
    }  # fmt: skip
    if kind in FILES:
        return RichValue(**shared, data=data, media_type=media_type(kind, data))
    if not isinstance(document, Mapping):
        raise _invalid("document", f"it is {type(document).__name__}; a {kind} is an object")
    return RichValue(**shared, document=_DOCUMENTS[kind](document))


def media_type(kind: Kind, data: bytes) -> str:
    """By its first bytes, never by its name."""
    if len(data) > MAX_FILE_BYTES:
        size, limit = f"{len(data):,} bytes", f"{MAX_FILE_BYTES:,}"
        raise TrainmasterError("too_large", what=f"the {kind}", size=size, limit=limit)
    for beginning, known in _TYPES[kind]:
        if data.startswith(beginning):
            return known
    beginning, known = _RIFF[kind]
    if data[:4] == b"RIFF" and data[8:12] == beginning:
        return known
    formats = {Kind.IMAGE: "PNG, JPEG, GIF or WebP", Kind.AUDIO: "WAV, MP3, OGG or FLAC"}
    raise _invalid(f"the {kind}", f"its first bytes are not those of {formats[kind]}")


def _table(document: Mapping[str, Any]) -> dict[str, Any]:
    columns, rows = document.get("columns"), document.get("rows")
    if not isinstance(columns, list) or not columns or not all(isinstance(name, str) for name in columns):
        raise _invalid("columns", "a table has a list of the names of its columns")
    if not isinstance(rows, list) or not all(
        isinstance(row, list) and len(row) == len(columns) for row in rows
    ):
        raise _invalid("rows", f"each row of the table is a list of {len(columns)} cells")
    if len(rows) * len(columns) > MAX_CELLS:
        size = f"{len(rows) * len(columns):,} cells"
        raise TrainmasterError("too_large", what="the table", size=size, limit=f"{MAX_CELLS:,}")
    if any(isinstance(cell, list | dict) for row in rows for cell in row):
        raise _invalid("rows", "a cell is a text, a number, true, false or null")
    return {"columns": storable(columns), "rows": storable(rows)}


def _histogram(document: Mapping[str, Any]) -> dict[str, Any]:
    counts, edges = _finite(document.get("counts")), _finite(document.get("edges"))
    if not 1 <= len(counts) <= MAX_BINS:
        raise _invalid(
            "histogram", f"counts and edges are lists of finite numbers, for 1 to {MAX_BINS:,} bins"
        )
    if len(edges) != len(counts) + 1 or any(low >= high for low, high in pairwise(edges)) or min(counts) < 0:
        raise _invalid("histogram", f"{len(counts)} counts from 0 need {len(counts) + 1} edges that ascend")
    left_out = document.get("non_finite", 0)
    return {"counts": counts, "edges": edges, "non_finite": left_out if isinstance(left_out, int) else 0}


def _text(document: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": fields.text(document.get("text"), "text", MAX_TEXT)}


def _finite(values: Any) -> list[float]:
    """The values where all are finite numbers, else none."""
    numbers = isinstance(values, list) and all(
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e308
        for value in values
    )
    return values if numbers else []


def _invalid(what: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=what, why=why)


_DOCUMENTS = {Kind.TABLE: _table, Kind.HISTOGRAM: _histogram, Kind.TEXT: _text}
