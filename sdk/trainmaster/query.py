"""Runs and their metrics from the platform, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from urllib.parse import quote

from trainmaster.answers import Answer, UnexpectedAnswer
from trainmaster.client import Client, ClientError
from trainmaster.environment import client_environment
from trainmaster.login import Login, current_login
from trainmaster.tracking.batch import real

PAGE = 200
Point = tuple[int, float, int]


@dataclass(frozen=True, slots=True)
class RunRecord(Answer):
    """A run as the platform knows it."""

    id: str
    name: str = ""
    state: str = ""
    experiment: str = ""
    team: str = ""
    owner: str = ""
    source: str = ""
    group: str = ""
    parent: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)  # name to its newest value
    started_ms: int | None = None
    ended_ms: int | None = None
    created_ms: int = 0

    def history(self, keys: Sequence[str] | str) -> dict[str, list[Point]]:
        """(step, value, time in ms) of each metric, in order."""
        names = [keys] if isinstance(keys, str) else keys
        return {key: list(history(self.id, key)) for key in names}

    def frame(self, keys: Sequence[str] | str) -> Any:
        """The same as a pandas DataFrame with the steps as index; needs pandas."""
        try:
            import pandas  # the user's own; nothing here depends on it
        except ImportError as error:
            raise ClientError("frame() needs pandas: pip install pandas; history() works without.") from error
        columns = {
            key: pandas.Series({step: value for step, value, _ in points}, dtype="float64")
            for key, points in self.history(keys).items()
        }
        return pandas.DataFrame(columns)


def runs(
    filter: str = "",
    order_by: str | Sequence[str] = (),
    *,
    experiment: str = "",
    team: str = "",
    limit: int = 100,
) -> list[RunRecord]:
    """At most `limit` runs, newest first unless ordered otherwise."""
    order = order_by if isinstance(order_by, str) else ", ".join(order_by)
    wanted = {"filter": filter, "order": order, "experiment": experiment, "team": team}
    wanted = {name: text for name, text in wanted.items() if text}
    found: list[RunRecord] = []
    cursor = ""
    while len(found) < limit:
        page = {"limit": str(min(PAGE, limit - len(found))), **({"cursor": cursor} if cursor else {})}
        body = _platform().call("GET", "runs", params=wanted | page)
        results = _list(body, "results")
        found += map(RunRecord.of, results)
        cursor = str(body.get("next") or "")
        if not cursor or not results:
            break
    return found[:limit]


def run(run_id: str) -> RunRecord:
    return RunRecord.of(_platform().call("GET", f"runs/{quote(run_id, safe='')}"))


def history(run_id: str, key: str) -> Iterator[Point]:
    cursor = ""
    while True:
        params = {"key": key, **({"cursor": cursor} if cursor else {})}
        body = _platform().call("GET", f"runs/{quote(run_id, safe='')}/metrics/history", params=params)
        points = _list(body, "points")
        for step, value, at_ms in points:
            yield int(step), real(value), int(at_ms)
        cursor = str(body.get("next") or "")
        if not cursor or not points:
            return


def _list(body: Any, name: str) -> list[Any]:
    if not isinstance(body, dict) or not isinstance(body.get(name), list):
        raise UnexpectedAnswer(f"The server's answer has no {name}; is it Trainmaster, and as new as this?")
    return list(body[name])


def _platform() -> Client:
    login = current_login(client_environment())
    if not login.url or not login.token:
        raise ClientError(
            "No platform is known here: run `trainmaster login URL`, or set TRAINMASTER_URL and TRAINMASTER_TOKEN."
        )
    return _client(login)


@cache
def _client(login: Login) -> Client:
    """One for the process: it keeps its connections."""
    return Client(login.url, login.token)
