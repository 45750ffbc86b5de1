"""Event files written, for a TensorBoard to read."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from trainmaster.event_files.names import FILE_PREFIX
from trainmaster.event_files.records import record


class EventWriter:
    """One event file in a folder, appended to. Needs the package `tensorboard`."""

    def __init__(self, folder: Path, at_ms: int) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self._event = Event
        folder.mkdir(parents=True, exist_ok=True)
        self._file = (folder / f"{FILE_PREFIX}{at_ms // 1000:010d}.trainmaster.0.0").open("ab")
        if not self._file.tell():
            self._write(Event(wall_time=at_ms / 1000, file_version="brain.Event:2"))

    def scalars(self, step: int, at_ms: int, values: Mapping[str, float]) -> None:
        event = self._event(wall_time=at_ms / 1000, step=step)
        for key, value in values.items():
            event.summary.value.add(tag=key, simple_value=value)
        self._write(event)

    def histogram(self, key: str, step: int, at_ms: int, edges: list[float], counts: list[float]) -> None:
        event = self._event(wall_time=at_ms / 1000, step=step)
        middles = [(low + high) / 2 for low, high in pairwise(edges)]
        histogram = event.summary.value.add(tag=key).histo
        histogram.min, histogram.max, histogram.num = edges[0], edges[-1], sum(counts)
        histogram.sum = sum(middle * count for middle, count in zip(middles, counts, strict=True))
        histogram.sum_squares = sum(
            middle * middle * count for middle, count in zip(middles, counts, strict=True)
        )
        histogram.bucket_limit.extend(edges[1:])
        histogram.bucket.extend(counts)
        self._write(event)

    def text(self, key: str, step: int, at_ms: int, text: str) -> None:
        event = self._event(wall_time=at_ms / 1000, step=step)
        value = event.summary.value.add(tag=key)
        value.metadata.plugin_data.plugin_name = "text"
        value.tensor.dtype = 7  # DT_STRING
        value.tensor.tensor_shape.dim.add(size=1)
        value.tensor.string_val.append(text.encode())
        self._write(event)

    def media(self, key: str, step: int, at_ms: int, kind: str, data: bytes) -> None:
        """`kind`: image or audio."""
        event = self._event(wall_time=at_ms / 1000, step=step)
        value = event.summary.value.add(tag=key)
        if kind == "image":
            value.image.encoded_image_string = data
        else:
            value.audio.encoded_audio_string = data
        self._write(event)

    def value(self, key: str, step: int, at_ms: int, kind: str, content: Mapping[str, Any] | bytes) -> None:
        """A rich value: its document, or the bytes of its file. Event files have no tables: one becomes a text."""
        if isinstance(content, bytes):
            self.media(key, step, at_ms, kind, content)
        elif kind == "histogram":
            self.histogram(key, step, at_ms, content["edges"], content["counts"])
        else:
            self.text(key, step, at_ms, _markdown(content) if kind == "table" else str(content["text"]))

    def _write(self, event: Any) -> None:
        self._file.write(record(event.SerializeToString()))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def _markdown(table: Mapping[str, Any]) -> str:
    rows = [table["columns"], ["---"] * len(table["columns"]), *table["rows"]]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows)


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("|", "\\|").replace("\n", " ")
