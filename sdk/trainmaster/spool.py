"""Where the SDK leaves its events: a file of JSON lines that the agent, or a person, reads."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from trainmaster.console import warn

MOST_LINE_BYTES = (
    120 << 10
)  # of values: the agent takes lines of 256 KiB, and the packages of a run stand beside them
MOST_VALUES = 1_000  # in one line
FEW = 64  # metrics, which fit into a line whatever their names
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}  # repr to what json.dumps writes


@lru_cache(maxsize=10_000)
def _quoted(name: str) -> str:
    return f"{json.dumps(name)}: "


def metrics_lines(step: int, at_ms: int, values: Mapping[str, float]) -> Iterator[str]:
    """The lines of a metrics event, in half the time of json.dumps: a training loop waits for it.

    Nearly always it is one; more than a line may hold are several.
    """
    texts = [_quoted(name) + _NOT_FINITE.get(text := repr(value), text) for name, value in values.items()]
    for part in parts(texts):
        yield f'{{"kind": "metrics", "at_ms": {at_ms}, "step": {step}, "values": {{{", ".join(part)}}}}}\n'


def parts(texts: list[str]) -> Iterator[list[str]]:
    """As many at a time as a line of the spool may hold."""
    if len(texts) <= FEW:  # nearly always
        yield texts
        return
    part: list[str] = []
    size = 0
    for text in texts:
        if part and (size + len(text) > MOST_LINE_BYTES or len(part) == MOST_VALUES):
            yield part
            part, size = [], 0
        part.append(text)
        size += len(text) + 2
    yield part


def divided(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Parameters or tags, as many at a time as a line may hold."""
    sizes = {name: len(json.dumps({name: value})) for name, value in values.items()}
    part: dict[str, Any] = {}
    size = 0
    for name, value in values.items():
        if part and size + sizes[name] > MOST_LINE_BYTES:
            yield part
            part, size = {}, 0
        part[name] = value
        size += sizes[name]
    yield part


class Spool:
    """An append-only file of JSON lines.

    One write call a line, so a killed process leaves whole lines. It needs no reader, never waits for one and
    never raises: a full disk costs events, not the training. It says so once and counts what it dropped.
    """

    def __init__(self, path: Path | None) -> None:
        """`path` None drops everything, for ranks that have nothing to tell."""
        self._path = path
        self._descriptor: int | None = None
        self._torn = False
        self.dropped = 0

    def append(self, event: Mapping[str, object]) -> None:
        try:
            line = json.dumps(event, default=str, ensure_ascii=False)
        except Exception as error:  # of a value that cannot be written
            self._drop(error)
        else:
            self.append_line(f"{line}\n")

    def append_line(self, text: str) -> None:
        """An event that is JSON already, with its newline."""
        if self._path is None:
            return
        try:
            line = text.encode(errors="replace")
            if self._descriptor is None:
                self._descriptor = self._open(self._path)
            # After a line that did not fit on the disk, a newline keeps the next one readable.
            written = os.write(self._descriptor, b"\n" + line if self._torn else line)
            self._torn = written < len(line)
            if self._torn:
                raise OSError(0, "the disk took only a part of a line")
        except (OSError, ValueError) as error:
            self._drop(error)

    def _open(self, path: Path) -> int:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(descriptor).st_size
        self._torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        return descriptor

    def _drop(self, error: Exception) -> None:
        self.dropped += 1
        if self.dropped == 1:
            warn(f"{self._path} cannot be written ({error}); training goes on, what it logs is lost")
