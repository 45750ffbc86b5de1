"""The events of a spool as requests to the platform. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from platform_core.experiments.fields import Kind, sorted_out
from trainmaster.plain_values import plain

# Events that are a request of their own; the others are gathered into one batch.
SINGLE = frozenset({"init", "artifact", "value", "finish"})

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """The next events that go together, and where in the spool they end."""

    events: tuple[Event, ...]
    end: int


def next_piece(data: bytes, offset: int, *, full: bool) -> Piece | None:
    """Of the spool from `offset` on: one event that goes alone, or the others before it. None: no whole line yet.

    A line that is no event, such as one that a killed process tore, is passed over. `full`: there is more than `data`,
    so a line that fills it is too long to be one of ours.
    """
    events: list[Event] = []
    position = offset
    for line in data.splitlines(keepends=True):
        if not line.endswith(b"\n"):
            break
        event = _event(line)
        if event is not None and event["kind"] in SINGLE and events:
            break
        position += len(line)
        if event is not None:
            events.append(event)
            if event["kind"] in SINGLE:
                break
    if position == offset:
        return Piece((), offset + len(data)) if full and data else None
    return Piece(tuple(events), position)


def _event(line: bytes) -> Event | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and isinstance(event.get("kind"), str) else None


def last_ms(data: bytes) -> int | None:
    """When the last of these events happened."""
    events = filter(None, map(_event, reversed(data.splitlines())))
    return next((int(event["at_ms"]) for event in events if isinstance(event.get("at_ms"), int)), None)


@dataclass(frozen=True, slots=True)
class Entry:
    """The least that can be sent by itself: a parameter, a tag, a field of the lineage, or a point of a metric."""

    field: str
    name: str
    value: Any


def entries(events: Iterable[Event]) -> tuple[list[Entry], list[str]]:
    """All of these events that a platform may keep, and a sentence for each of the others."""
    found: list[Entry] = []
    problems: list[str] = []
    for event in events:
        match event["kind"]:
            case "metrics" | "system":
                found += _points(event, problems)
            case "tags":
                found += _sorted_out("tag", "tags", event.get("tags"), problems)
            case "lineage":
                found += _lineage(event.get("lineage"))
            case "init":
                facts = ("packages", "hardware", "seed", "step_total")
                found += _lineage({name: event[name] for name in facts if event.get(name) is not None})
                found += _lineage(event.get("lineage"))
                found += _sorted_out("parameter", "parameters", event.get("params"), problems)
    return found, problems


def log_body(entries: Iterable[Entry]) -> dict[str, Any]:
    """The body of POST /runs/{id}/log, without source and sequence."""
    points: dict[str, list[list[object]]] = {}
    body: dict[str, Any] = {}
    for entry in entries:
        if entry.field == "metrics":
            points.setdefault(entry.name, []).append(entry.value)
        else:
            body.setdefault(entry.field, {})[entry.name] = entry.value
    if points:
        body["metrics"] = [{"key": key, "points": values} for key, values in points.items()]
    return body


def _lineage(facts: Any) -> list[Entry]:
    return [Entry("lineage", name, value) for name, value in facts.items()] if isinstance(facts, dict) else []


def _sorted_out(kind: Kind, field: str, given: Any, problems: list[str]) -> list[Entry]:
    kept, left_out = (
        sorted_out(kind, {name: plain(value) for name, value in given.items()}) if given else ({}, [])
    )
    problems += left_out
    return [Entry(field, name, value) for name, value in kept.items()]


def _points(event: Event, problems: list[str]) -> list[Entry]:
    try:
        step, at_ms, given = int(event["step"]), int(event["at_ms"]), dict(event["values"])
    except (KeyError, TypeError, ValueError, OverflowError):
        return []
    kept, left_out = sorted_out("metric", given)
    problems += left_out
    return [Entry("metrics", key, [step, number(value), at_ms]) for key, value in kept.items()]


def number(value: float) -> float | str:
    """JSON has no words for what is not finite; the platform's are MLflow's."""
    real = float(value)
    if math.isfinite(real):
        return real
    return "NaN" if math.isnan(real) else "Infinity" if real > 0 else "-Infinity"


def real(value: float | str | None) -> float:
    """The number that `number` wrote."""
    return math.nan if value is None else float(value)
