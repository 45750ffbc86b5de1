"""The events of a spool as requests to the platform. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

# Events that are a request of their own; the others are gathered into one batch.
SINGLE = frozenset({"init", "artifact", "value", "finish"})

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Piece:
    """The next events that go together, and where in the spool they end."""

    events: tuple[Event, ...]
    end: int


def next_piece(data: bytes, offset: int, most: int | None = None, *, full: bool) -> Piece | None:
    """Of the spool from `offset` on: one event that goes alone, or up to `most` others. None: no whole line yet.

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
            if event["kind"] in SINGLE or (most is not None and len(events) >= most):
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


def log_body(events: Iterable[Event]) -> dict[str, Any]:
    """The body of POST /runs/{id}/log, without source and sequence. A point that no platform keeps is left out."""
    points: dict[str, list[list[object]]] = {}
    body: dict[str, Any] = {}
    for event in events:
        match event["kind"]:
            case "metrics" | "system":
                _add_points(points, event)
            case "tags" | "lineage" as name if isinstance(event.get(name), dict):
                body[name] = {**body.get(name, {}), **event[name]}
            case "init":
                facts = ("packages", "hardware", "seed", "step_total")
                body["lineage"] = {name: event[name] for name in facts if event.get(name) is not None}
                body["lineage"] |= event.get("lineage") or {}
                body["parameters"] = event.get("params") or {}
    if points:
        body["metrics"] = [{"key": key, "points": values} for key, values in points.items()]
    return body


def _add_points(points: dict[str, list[list[object]]], event: Event) -> None:
    try:
        step, at_ms = int(event["step"]), int(event["at_ms"])
        for key, value in event["values"].items():
            points.setdefault(key, []).append([step, number(value), at_ms])
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        return


def number(value: float) -> float | str:
    """JSON has no words for what is not finite; the platform's are MLflow's."""
    real = float(value)
    if math.isfinite(real):
        return real
    return "NaN" if math.isnan(real) else "Infinity" if real > 0 else "-Infinity"


def real(value: float | str | None) -> float:
    """The number that `number` wrote."""
    return math.nan if value is None else float(value)
