"""Runs and their metrics from the platform, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import quote

from trainmaster.answers import Answer, UnexpectedAnswer
from trainmaster.client import Client, ClientError
from trainmaster.environment import client_environment
from trainmaster.login import current_login
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
    experiment_id: int = 0
    team: str = ""
    job: str = ""
    owner: str = ""
    source: str = ""
    group: str = ""
    parent: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)  # name to its last value
    started_ms: int | None = None
    ended_ms: int | None = None
    created_ms: int = 0

    def history(self, keys: Sequence[str] | str) -> dict[str, list[Point]]:
        """(step, value, time in ms) of each metric, in order."""
        with _platform() as client:
            return {
                key: list(_history(client, self.id, key))
                for key in ([keys] if isinstance(keys, str) else keys)
            }

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
    wanted: dict[str, Any] = {"filter": filter} if filter else {}
    if order_by:
        wanted["order"] = [order_by] if isinstance(order_by, str) else list(order_by)
    if team:
        wanted["teams"] = [team]
    with _platform() as client:
        if experiment:
            known = client.experiments(team=team, search=experiment)
            wanted["experiments"] = [row.id for row in known if row.name == experiment]
            if not wanted["experiments"]:
                return []
        return list(islice(_search(client, wanted, limit), limit))


def _search(client: Client, wanted: Mapping[str, Any], limit: int) -> Iterator[RunRecord]:
    """Page after page."""
    cursor = ""
    while True:
        page = {"limit": min(PAGE, limit), **({"cursor": cursor} if cursor else {})}
        body = client.call("POST", "runs/search", json={**wanted, **page})
        yield from map(RunRecord.of, _list(body, "results"))
        cursor = str(body.get("next") or "")
        if not cursor:
            return


def run(run_id: str) -> RunRecord:
    """One run by its id."""
    with _platform() as client:
        return RunRecord.of(client.call("GET", f"runs/{quote(run_id, safe='')}"))


def _history(client: Client, run_id: str, key: str) -> Iterator[Point]:
    cursor = ""
    while True:
        params = {"key": key, **({"cursor": cursor} if cursor else {})}
        body = client.call("GET", f"runs/{quote(run_id, safe='')}/metrics/history", params=params)
        for step, value, at_ms in _list(body, "points"):
            yield int(step), real(value), int(at_ms)
        cursor = str(body.get("next") or "")
        if not cursor:
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
    return Client(login.url, login.token)
