"""Sweeps from Python: start and follow them, or ask and tell for a tuner of your own.

with Client(url, token) as client:
    sweeps = Sweeps(client)
    trial = sweeps.ask("sweep-…")
    sweeps.tell("sweep-…", trial.number, value=train(**trial.parameters))
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from trainmaster.answers import Answer
from trainmaster.client import Client

ENDED = frozenset({"pruned", "succeeded", "failed", "cancelled"})
ENDED_SWEEPS = frozenset({"finished", "cancelled", "out_of_budget"})


@dataclass(frozen=True, slots=True)
class Trial(Answer):
    number: int
    state: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    job: str = ""  # empty where a program evaluates it
    value: float | None = None
    step: int | None = None
    reason: str = ""
    started_ms: int | None = None
    ended_ms: int | None = None

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class Sweep(Answer):
    id: str
    name: str
    team: str
    state: str
    url: str = ""
    user: str = ""
    reason: str = ""
    trials: int = 0
    running: int = 0
    pruned: int = 0
    best: Mapping[str, Any] | None = None  # as a trial
    gpu_hours: float = 0.0
    cost: float = 0.0
    created_ms: int | None = None
    ended_ms: int | None = None
    spec: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_ended(self) -> bool:
        return self.state in ENDED_SWEEPS


class Sweeps:
    """The sweeps of a platform; the methods raise what those of `Client` raise."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def start(
        self, spec: Mapping[str, Any], *, key: str = "", lineage: Mapping[str, str] | None = None
    ) -> Sweep:
        """`spec` has the fields of a sweep file. The same key again gives the same sweep."""
        body = {**spec, "lineage": dict(lineage)} if lineage else dict(spec)
        headers = {"Idempotency-Key": key or uuid.uuid4().hex}
        return Sweep.of(self._client.call("POST", "sweeps", json=body, headers=headers))

    def list(self, *, team: str = "", search: str = "") -> list[Sweep]:
        """The newest 200, or those of one team or with this text in the name."""
        filters = {name: value for name, value in {"team": team, "search": search}.items() if value}
        body = self._client.call("GET", "sweeps", params=filters)
        return [Sweep.of(line) for line in body["results"]]

    def show(self, sweep_id: str) -> Sweep:
        return Sweep.of(self._client.call("GET", _path(sweep_id)))

    def trials(self, sweep_id: str) -> Sequence[Trial]:
        body = self._client.call("GET", f"{_path(sweep_id)}/trials")
        return [Trial.of(line) for line in body["results"]]

    def pause(self, sweep_id: str) -> Sweep:
        return Sweep.of(self._client.call("POST", f"{_path(sweep_id)}/pause"))

    def resume(self, sweep_id: str) -> Sweep:
        return Sweep.of(self._client.call("POST", f"{_path(sweep_id)}/resume"))

    def cancel(self, sweep_id: str) -> Sweep:
        return Sweep.of(self._client.call("POST", f"{_path(sweep_id)}/cancel"))

    def change_budget(self, sweep_id: str, **fields: float) -> Sweep:
        """Of trials, gpu_hours, cost and hours."""
        return Sweep.of(self._client.call("PATCH", f"{_path(sweep_id)}/budget", json=fields))

    def ask(self, sweep_id: str, parameters: Mapping[str, Any] | None = None, *, key: str = "") -> Trial:
        """The next trial: with your parameters, or with those that the method of the sweep chooses."""
        body: dict[str, Any] = {"key": key or uuid.uuid4().hex}
        body |= {} if parameters is None else {"parameters": dict(parameters)}
        return Trial.of(self._client.call("POST", f"{_path(sweep_id)}/ask", json=body))

    def tell(
        self,
        sweep_id: str,
        number: int,
        *,
        points: Sequence[tuple[int, float]] = (),
        value: float | None = None,
        state: str = "",
    ) -> Trial:
        """Points of the curve, and at the end the value or a state. The answer's state says whether it was pruned."""
        body: dict[str, Any] = {"points": [list(point) for point in points]} if points else {}
        body |= {} if value is None else {"value": value}
        body |= {"state": state} if state else {}
        return Trial.of(self._client.call("POST", f"{_path(sweep_id)}/trials/{number}/tell", json=body))

    def wait(
        self, sweep_id: str, number: int, *, every: float = 2.0, sleep: Callable[[float], None] = time.sleep
    ) -> Trial:
        """The trial once its job has ended."""
        while True:
            trial = next(trial for trial in self.trials(sweep_id) if trial.number == number)
            if trial.is_ended:
                return trial
            sleep(every)


def _path(sweep_id: str) -> str:
    return f"sweeps/{quote(sweep_id, safe='')}"
