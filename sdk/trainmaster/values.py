"""Rich values of a run: images, tables, histograms, texts and sounds, each encoded when it is logged.

Numpy, torch and PIL are used where the caller's value has them; none of them is imported here before.
"""

from __future__ import annotations

import io
import json
import math
import struct
import wave
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

MOST_FILE_BYTES = 10 << 20
MOST_DOCUMENT_BYTES = 128 << 10  # a line of the spool holds it
MOST_IN_A_STEP = 100  # values of one name at one step
DEFAULT_BINS = 64

IMAGE_SUFFIXES = ((b"\x89PNG\r\n\x1a\n", ".png"), (b"\xff\xd8\xff", ".jpg"), (b"GIF8", ".gif"))
AUDIO_SUFFIXES = ((b"ID3", ".mp3"), (b"\xff\xfb", ".mp3"), (b"OggS", ".ogg"), (b"fLaC", ".flac"))


class ValueRefused(ValueError):
    """The value cannot be logged; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """`document` for what is small, else the bytes of a file with `suffix`."""

    kind: str
    document: dict[str, Any] | None = None
    data: bytes = b""
    suffix: str = ""
    caption: str = ""


class RichValue:
    """What `log()` takes beside numbers."""

    def encode(self) -> Encoded:
        """Raises ValueRefused."""
        raise NotImplementedError


class Image(RichValue):
    """An image from a file (PNG, JPEG, GIF or WebP), a PIL image, or an array.

    An array is height x width, with 1, 3 or 4 channels behind or, as torch has it, before them. Integers are
    0 to 255, fractions 0 to 1.
    """

    def __init__(self, source: Any, caption: str = "") -> None:
        self._source, self._caption = source, caption

    def encode(self) -> Encoded:
        source = self._source
        if isinstance(source, str | Path):
            data = _read(Path(source))
        elif callable(getattr(source, "save", None)):  # PIL
            buffer = io.BytesIO()
            source.save(buffer, format="PNG")
            data = buffer.getvalue()
        else:
            data = _png(source)
        suffix = _suffix(data, IMAGE_SUFFIXES) or (
            ".webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else ""
        )
        if not suffix:
            raise ValueRefused(
                f"{source} is not a PNG, JPEG, GIF or WebP image; log_artifact() keeps any file"
            )
        return Encoded("image", data=_bounded(data), suffix=suffix, caption=str(self._caption))


class Audio(RichValue):
    """A sound from a file (WAV, MP3, OGG, FLAC), or an array of samples from -1 to 1: frames, or frames x channels."""

    def __init__(self, source: Any, sample_rate: int = 44_100, caption: str = "") -> None:
        self._source, self._rate, self._caption = source, sample_rate, caption

    def encode(self) -> Encoded:
        source = self._source
        data = _read(Path(source)) if isinstance(source, str | Path) else _wav(source, self._rate)
        suffix = _suffix(data, AUDIO_SUFFIXES) or (
            ".wav" if data[:4] == b"RIFF" and data[8:12] == b"WAVE" else ""
        )
        if not suffix:
            raise ValueRefused(f"{source} is not a WAV, MP3, OGG or FLAC file; log_artifact() keeps any file")
        return Encoded("audio", data=_bounded(data), suffix=suffix, caption=str(self._caption))


class Table(RichValue):
    """Rows of numbers and texts under named columns."""

    def __init__(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        self._columns, self._rows = [str(name) for name in columns], rows

    def encode(self) -> Encoded:
        rows = []
        for number, row in enumerate(self._rows):
            cells = [_cell(cell) for cell in row]
            if len(cells) != len(self._columns):
                raise ValueRefused(
                    f"row {number} of the table has {len(cells)} cells; there are {len(self._columns)} columns"
                )
            rows.append(cells)
        return _document("table", {"columns": self._columns, "rows": rows})


class Histogram(RichValue):
    """The distribution of `values`, or counts that were made elsewhere, with the edges of their bins."""

    def __init__(
        self,
        values: Any = None,
        *,
        counts: Sequence[int] | None = None,
        edges: Sequence[float] | None = None,
        bins: int = DEFAULT_BINS,
    ) -> None:
        self._values, self._counts, self._edges, self._bins = values, counts, edges, bins

    def encode(self) -> Encoded:
        if self._values is not None:
            counts, edges, left_out = _binned(_numbers(self._values), self._bins)
        elif self._counts is None or self._edges is None:
            raise ValueRefused("a histogram needs values, or counts and edges")
        else:
            counts, edges, left_out = [int(n) for n in self._counts], [float(x) for x in self._edges], 0
        if len(edges) != len(counts) + 1:
            raise ValueRefused(f"{len(counts)} counts need {len(counts) + 1} edges, not {len(edges)}")
        if not all(map(math.isfinite, edges)) or any(low >= high for low, high in pairwise(edges)):
            raise ValueRefused("the edges of a histogram are finite and ascend")
        return _document("histogram", {"counts": counts, "edges": edges, "non_finite": left_out})


class Text(RichValue):
    """A text, shown as it is."""

    def __init__(self, text: str) -> None:
        self._text = str(text)

    def encode(self) -> Encoded:
        return _document("text", {"text": self._text})


class Html(RichValue):
    """Is always refused: a page of the platform shows no foreign HTML."""

    def __init__(self, *anything: Any, **more: Any) -> None:
        del anything, more

    def encode(self) -> Encoded:
        raise ValueRefused(
            "HTML is not shown, since its scripts would run as the reader; "
            "keep the file with log_artifact(), or log an Image, a Table or a Text"
        )


def _document(kind: str, document: dict[str, Any]) -> Encoded:
    size = len(json.dumps(document, ensure_ascii=False).encode(errors="replace"))
    if size > MOST_DOCUMENT_BYTES:
        raise ValueRefused(
            f"the {kind} has {size:,} bytes; the limit is {MOST_DOCUMENT_BYTES:,}: "
            "log less of it, or keep the whole as a file with log_artifact()"
        )
    return Encoded(kind, document=document)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(MOST_FILE_BYTES + 1)
    except OSError as error:
        raise ValueRefused(f"{path} cannot be read: {error.strerror or error}") from error


def _bounded(data: bytes) -> bytes:
    if len(data) > MOST_FILE_BYTES:
        raise ValueRefused(
            f"it has more than {MOST_FILE_BYTES >> 20} MiB, the limit of one value; log_artifact() keeps larger files"
        )
    return data


def _suffix(data: bytes, known: Iterable[tuple[bytes, str]]) -> str:
    return next((suffix for beginning, suffix in known if data.startswith(beginning)), "")


def _cell(value: Any) -> Any:
    if value is None or isinstance(value, str | bool):
        return value
    item = getattr(value, "item", None)  # a scalar of numpy or torch
    try:
        value = item() if callable(item) else value
    except (TypeError, ValueError, RuntimeError):
        return str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if isinstance(value, int) else str(value)


def _plain(array: Any) -> Any:
    """A tensor leaves its graph and its GPU."""
    for name in ("detach", "cpu", "numpy"):
        method = getattr(array, name, None)
        if callable(method):
            array = method()
    return array


def _numbers(values: Any) -> list[float]:
    values = _plain(values)
    flat = getattr(values, "ravel", None)
    try:
        return [float(value) for value in (flat().tolist() if callable(flat) else values)]
    except (TypeError, ValueError) as error:
        raise ValueRefused(f"the values of a histogram are numbers: {error}") from error


def _binned(values: list[float], bins: int) -> tuple[list[int], list[float], int]:
    finite = [value for value in values if math.isfinite(value)]
    low, high = (min(finite), max(finite)) if finite else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    bins = max(1, min(int(bins), 512))
    edges = [low + (high - low) * number / bins for number in range(bins)] + [high]
    counts = [0] * bins
    for value in finite:
        counts[min(bisect_right(edges, value), bins) - 1] += 1
    return counts, edges, len(values) - len(finite)


def _png(source: Any) -> bytes:
    array = _plain(source)
    shape = tuple(getattr(array, "shape", ()))
    if len(shape) == 3 and shape[0] in (1, 3, 4) and shape[2] not in (1, 3, 4):
        array = array.transpose(1, 2, 0)
        shape = tuple(array.shape)
    colour_types = {1: 0, 3: 2, 4: 6}
    channels = shape[2] if len(shape) == 3 else 1
    if len(shape) not in (2, 3) or channels not in colour_types or 0 in shape:
        raise ValueRefused(
            f"an image is an array of height x width with 1, 3 or 4 channels, a PIL image or a path; "
            f"this is {type(source).__name__}{f' of shape {shape}' if shape else ''}"
        )
    if array.dtype.kind == "f":
        array = (array.clip(0, 1) * 255).round()
    elif array.dtype.kind == "b":
        array = array * 255
    height, width = shape[:2]
    rows = array.clip(0, 255).astype("uint8").reshape(height, width * channels)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, 8, colour_types[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(raw, 6)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in chunks
    )


def _wav(source: Any, rate: int) -> bytes:
    array = _plain(source)
    shape = tuple(getattr(array, "shape", ()))
    if len(shape) not in (1, 2) or (len(shape) == 2 and not 1 <= shape[1] <= 8):
        raise ValueRefused("a sound is an array of frames, or of frames x channels, or the path of a file")
    if array.dtype.kind == "f":
        array = (array.clip(-1, 1) * 32767).round()
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as writer:
        writer.setnchannels(shape[1] if len(shape) == 2 else 1)
        writer.setsampwidth(2)
        writer.setframerate(int(rate))
        writer.writeframes(array.astype("<i2").tobytes())
    return buffer.getvalue()
