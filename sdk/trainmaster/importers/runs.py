"""A run of another tracker as values, whatever the tracker."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

MOST_KEY, MOST_PARAMETER, MOST_TAG, MOST_NAME = 250, 6_000, 8_000, 250


class SourceError(Exception):
    """The source cannot be read; the message is a sentence."""


@dataclass(frozen=True, slots=True)
class Point:
    key: str
    step: int
    value: float
    at_ms: int
    attempt: int = 0  # a later one of the same run replaces the steps that it repeats


@dataclass(frozen=True, slots=True)
class Rich:
    """`document` for what is small, else the bytes of a file with `suffix`."""

    key: str
    step: int
    at_ms: int
    kind: str
    index: int = 0
    document: Mapping[str, Any] | None = None
    data: bytes = b""
    suffix: str = ""
    caption: str = ""


@dataclass(frozen=True, slots=True)
class RunFile:
    """`opened` gives a local path of its bytes for as long as it is open."""

    path: str
    opened: Callable[[], AbstractContextManager[Path]]


Content = Point | Rich | RunFile


@dataclass(frozen=True, slots=True)
class SourceRun:
    """What a source has of one run. `content` is read when the run is sent, so that a large one never lies in memory.

    `identity` tells the run apart from all others of its source, also when it is read again.
    """

    source: str
    identity: str
    experiment: str
    name: str
    content: Callable[[], Iterator[Content]] = field(repr=False)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    lineage: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""
    group: str = ""
    parent: str = ""  # identity of the run above it
    state: str = "succeeded"
    started_ms: int | None = None
    ended_ms: int | None = None
    notes: tuple[str, ...] = ()  # sentences about what the source has and the platform does not take


def run_id(run: SourceRun, identity: str, team: str, experiment: str) -> str:
    """The same for the same run of the same source each time that it is imported there."""
    text = "\0".join((run.source, identity, team, experiment))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def parameter(value: Any) -> Any:
    """As the platform keeps it: long texts are cut."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, bool | int | float) or value is None:
        return value if not isinstance(value, int) or abs(value) < 1 << 63 else str(value)
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= MOST_PARAMETER else text[: MOST_PARAMETER - 1] + "…"


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings under names with dots."""
    result: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            result |= flat(value, f"{key}.")
        else:
            result[key[:MOST_KEY]] = parameter(value)
    return result
