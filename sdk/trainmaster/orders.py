"""Orders to a running script: `orders.json` in the attempt's work folder, which the agent replaces as a whole.

    {"save": 3, "checkpoint_interval_ms": 600000, "stop": {"at_ms", "deadline_ms", "reason"},
     "profiles": [{"number": 1, "steps": 20, "ranks": [0], "kind": "trace"}, …]}

`save` grows with each order to save now; an interval of 0 is the one of the environment.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NAME = "orders.json"
LOOK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Stop:
    at_ms: int
    deadline_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Profile:
    number: int
    steps: int
    ranks: tuple[int, ...]
    kind: str  # trace, memory or flame


@dataclass(frozen=True, slots=True)
class Orders:
    save: int = 0
    checkpoint_interval_ms: int = 0
    stop: Stop | None = None
    profiles: tuple[Profile, ...] = ()  # in the order of their numbers


class OrdersFile:
    """The newest orders that could be read. A missing or broken file changes nothing."""

    def __init__(self, work_folder: Path | None) -> None:
        self._file = work_folder / NAME if work_folder is not None else None
        self._seen: tuple[int, int] | None = None
        self._orders = Orders()

    def read(self) -> Orders:
        if self._file is None:
            return self._orders
        try:
            stat = self._file.stat()
            if (stat.st_mtime_ns, stat.st_ino) != self._seen:
                self._orders = _parse(self._file.read_bytes())
                self._seen = stat.st_mtime_ns, stat.st_ino
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            pass
        return self._orders


def _parse(data: bytes) -> Orders:
    document = json.loads(data)
    stop = document.get("stop")
    return Orders(
        int(document.get("save", 0)),
        int(document.get("checkpoint_interval_ms", 0)),
        Stop(int(stop["at_ms"]), int(stop["deadline_ms"]), str(stop.get("reason", ""))) if stop else None,
        tuple(map(_profile, document.get("profiles", ()))),
    )


def _profile(order: dict[str, Any]) -> Profile:
    return Profile(
        int(order["number"]), int(order["steps"]), tuple(map(int, order["ranks"])), str(order["kind"])
    )
