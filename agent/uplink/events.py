"""What a job may say in its spool, as checked values. Pure: the one place that reads such a line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from platform_core.distribution.content.tiling import check_path
from platform_core.errors import TrainmasterError
from platform_core.experiments.fields import MAX_KEY, sorted_out

LONGEST_LINE = 256 * 1024 - 1
LONGEST_NAME = MAX_KEY
MOST_VALUES = 1000  # in one line
DEEPEST = 32
_BEYOND = 2**63  # the first whole number that no column and no message takes
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"?', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")


class Misfit(ValueError):
    """The line is not one of those that the SDK writes. Says why without quoting its text, which may be a secret."""


@dataclass(frozen=True, slots=True)
class CheckpointSaved:
    step: int
    path: str
    metrics: tuple[tuple[str, float], ...]
    at_ms: int
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ArtifactKept:
    name: str
    path: str


@dataclass(frozen=True, slots=True)
class ValueKept:
    """An image or a sound that lies in a file of the attempt."""

    key: str
    step: int
    index: int
    kind: str
    path: str
    at_ms: int
    caption: str


@dataclass(frozen=True, slots=True)
class Report:
    """Goes up to the server: the fields that it reads, and no others. `left_out` says, without quoting
    them, that entries of the line are none that a server keeps."""

    fields: Mapping[str, Any]
    left_out: tuple[str, ...] = ()


Event = CheckpointSaved | ArtifactKept | ValueKept | Report


def parse(line: bytes) -> Event | None:
    """None for a kind that this version does not know. Raises Misfit."""
    if len(line) > LONGEST_LINE:
        raise Misfit(f"it is longer than {LONGEST_LINE:,} bytes")
    if _depth(line) > DEEPEST:  # json.loads calls itself for each level
        raise Misfit(f"it is nested deeper than {DEEPEST} levels")
    try:
        event = json.loads(line.decode())
    except (ValueError, RecursionError):
        raise Misfit("it is not JSON in UTF-8") from None
    if not isinstance(event, dict):
        raise Misfit("it is not a JSON object")
    match event.get("kind"):
        case "metrics" | "system":
            values, left_out = _numbers(event, "values")
            return Report(
                {"kind": event["kind"], "at_ms": _time(event), "step": _step(event), "values": values},
                tuple(left_out),
            )
        case "checkpoint_started":
            return _report(event, at_ms=_time(event), step=_step(event))
        case "checkpoint_failed":
            why = _text(event, "why", LONGEST_LINE)[: 10 * LONGEST_NAME]
            return _report(event, at_ms=_time(event), step=_step(event), why=why)
        case "watches_stop":
            return _report(event, at_ms=_time(event))
        case "milestone":
            name = _text(event, "name", LONGEST_NAME)
            return _report(event, at_ms=_time(event), step=_step(event), name=name)
        case "corruption_agreed":
            return _report(event, at_ms=_time(event), step=_step(event))
        case "corruption_found":
            ranks = {name: _ranks(event, name) for name in ("guilty", "suspects")}
            return _report(event, at_ms=_time(event), step=_step(event), **ranks)
        case "training_alarm":
            return _alarm(event)
        case "set_aside":
            return _set_aside(event)
        case "init":
            return _init(event)
        case "checkpoint":
            metrics, left_out = _numbers(event, "metrics") if event.get("metrics") is not None else ({}, [])
            return CheckpointSaved(
                _step(event), _path(event), tuple(metrics.items()), _time(event), tuple(left_out)
            )
        case "artifact":
            return ArtifactKept(_text(event, "name", LONGEST_NAME), _path(event))
        case "value":
            return _value(event)
        case "tags":
            given = {name: str(value) for name, value in _object(event, "tags").items()}
            tags, _ = sorted_out("tag", given)
            return Report(
                {"kind": event["kind"], "tags": tags},
                tuple(_counted(len(given) - len(tags), len(given), "tags")),
            )
    return None


def _report(event: Mapping[str, Any], **fields: Any) -> Report:
    return Report({"kind": event["kind"], **fields})


def _value(event: Mapping[str, Any]) -> ValueKept | Report:
    """What is small stands in the line, as `document` or, in base64, as `data`; `path` leads to a file."""
    key, kind = _text(event, "key", LONGEST_NAME), _text(event, "type", LONGEST_NAME)
    step, at_ms = _step(event), _time(event)
    index = _whole(event, "index") if event.get("index") is not None else 0
    caption = _text(event, "caption", 10 * LONGEST_NAME) if event.get("caption") else ""
    if event.get("path") is not None:
        if not 0 <= index < 1 << 32:
            raise Misfit("its index is not from 0 to 4,294,967,295")
        return ValueKept(key, step, index, kind, _path(event), at_ms, caption)
    fields = {"key": key, "step": step, "index": index, "type": kind, "at_ms": at_ms, "caption": caption}
    if event.get("data") is not None:
        return _report(event, **fields, data=_text(event, "data", LONGEST_LINE))
    return _report(event, **fields, document=_object(event, "document"))


def _init(event: Mapping[str, Any]) -> Report:
    """Texts in parameters may be anything; what the page shows by itself has its type."""
    fields: dict[str, Any] = {"at_ms": _time(event)}
    left_out: list[str] = []
    for name in ("step_total", "seed"):
        if event.get(name) is not None:
            with _leaving_out(left_out):
                fields[name] = _whole(event, name)
    if event.get("params") is not None:
        fields["params"] = _object(event, "params")
    if event.get("hardware") is not None:
        with _leaving_out(left_out):
            fields["hardware"] = _text(event, "hardware", 10 * LONGEST_NAME)
    if event.get("packages") is not None:
        packages, fields["packages"] = _object(event, "packages"), {}
        for name in packages:
            with _leaving_out(left_out):
                fields["packages"][_name(name)] = _text(packages, name, LONGEST_NAME)
    return Report({"kind": event["kind"], **fields}, tuple(left_out))


@contextmanager
def _leaving_out(left_out: list[str]) -> Iterator[None]:
    """One entry that does not fit costs no other."""
    try:
        yield
    except Misfit as misfit:
        left_out.append(str(misfit))


def _ranks(event: Mapping[str, Any], name: str) -> list[int]:
    ranks = event.get(name)
    if not isinstance(ranks, list) or len(ranks) > MOST_VALUES:
        raise Misfit(f"its {name} is no list of up to {MOST_VALUES:,} ranks")
    return [_whole({name: rank}, name) for rank in ranks]


def _alarm(event: Mapping[str, Any]) -> Report:
    name, alarm = _text(event, "name", LONGEST_NAME), _text(event, "alarm", LONGEST_NAME)
    value = None if event.get("value") is None else _number(event["value"], "value")
    limit = _number(event.get("limit"), "limit")
    return _report(
        event, at_ms=_time(event), step=_step(event), name=name, alarm=alarm, value=value, limit=limit
    )


def _set_aside(event: Mapping[str, Any]) -> Report:
    """A shard, or a sample of a loader."""
    shard = event.get("shard") is not None
    which = (
        {"shard": _text(event, "shard", 5 * LONGEST_NAME)} if shard else {"sample": _whole(event, "sample")}
    )
    return _report(
        event, at_ms=_time(event), loader=_text(event, "loader", LONGEST_NAME), samples=_whole(event, "samples"),
        reason=_text(event, "reason", LONGEST_LINE)[: 10 * LONGEST_NAME], **which,
    )  # fmt: skip


def _depth(line: bytes) -> int:
    if line.count(b"[") + line.count(b"{") <= DEEPEST:
        return 0  # nearly all lines
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_TEXTS.sub(b"", line)):
        depth += 1 if bracket in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _whole(event: Mapping[str, Any], name: str) -> int:
    value = event.get(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise Misfit(f"its {name} is {_kind(value)}, not a whole number")
    if not -_BEYOND < value < _BEYOND:
        raise Misfit(f"its {name} does not fit into 64 bits")
    return value


def _step(event: Mapping[str, Any]) -> int:
    return _whole(event, "step")


def _time(event: Mapping[str, Any]) -> int:
    at_ms = _whole(event, "at_ms")
    if at_ms < 0:
        raise Misfit("its at_ms is negative")
    return at_ms


def _numbers(event: Mapping[str, Any], name: str) -> tuple[dict[str, float], list[str]]:
    """The metrics that can be kept. Raises Misfit where there are some, and none can."""
    given = _object(event, name)
    kept, _ = sorted_out("metric", given, MOST_VALUES)
    left_out = _counted(len(given) - len(kept), len(given), name)
    if left_out and not kept:
        raise Misfit(left_out[0])
    return kept, left_out


def _counted(count: int, of: int, name: str) -> list[str]:
    why = f"names have 1 to {LONGEST_NAME} characters, values fit, and a line has {MOST_VALUES:,} of them at most"
    return [f"{count:,} of its {of:,} {name} cannot be kept: {why}"] if count else []


def _number(value: object, name: str) -> float:
    if not isinstance(value, int | float):
        raise Misfit(f"one of its {name} is {_kind(value)}, not a number")
    try:
        number = float(value)
    except OverflowError:
        raise Misfit(f"one of its {name} is too large for a number") from None
    return number


def _object(event: Mapping[str, Any], name: str) -> dict[str, Any]:
    value = event.get(name)
    if not isinstance(value, dict):
        raise Misfit(f"its {name} is {_kind(value)}, not an object")
    return value


def _text(event: Mapping[str, Any], name: str, longest: int) -> str:
    value = event.get(name)
    if not isinstance(value, str) or not value:
        raise Misfit(f"its {name} is {_kind(value)}, not a text")
    return _fit(value, f"its {_plain(name)}", longest)


def _name(value: str) -> str:
    if not value:
        raise Misfit("a name in it is empty")
    return _fit(value, "a name in it", LONGEST_NAME)


def _fit(value: str, what: str, longest: int) -> str:
    if len(value) > longest:
        raise Misfit(f"{what} has {len(value):,} characters; the limit is {longest:,}")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise Misfit(f"{what} has characters that no database keeps")
    return value


def _plain(name: str) -> str:
    return name if name.isidentifier() and len(name) < 20 else "text"


def _path(event: Mapping[str, Any]) -> str:
    path = PurePosixPath(_text(event, "path", 1024)).as_posix()
    try:
        return check_path(path)
    except TrainmasterError:
        raise Misfit("its path does not lead to something in the folder of the attempt") from None


def _kind(value: object) -> str:
    if value is None:
        return "missing"
    if isinstance(value, float):
        return "a fraction" if math.isfinite(value) else "not finite"
    names = {
        str: "a text" if value else "an empty text",
        bool: "true or false",
        list: "a list",
        dict: "an object",
    }
    return names.get(type(value), "a number")
