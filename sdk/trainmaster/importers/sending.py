"""A run of another tracker on its way to the platform; sent again, nothing is doubled."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from platform_core.experiments.fields import sorted_out
from trainmaster import plain_values
from trainmaster.client import ApiError, Client, ClientError
from trainmaster.importers.runs import (
    MOST_NAME,
    Point,
    Rich,
    RunFile,
    SourceError,
    SourceRun,
    run_id,
)
from trainmaster.tracking.batch import number

MOST_POINTS = 10_000  # of one request
LAST_MS = 1 << 53
_Endings = (ClientError, SourceError, OSError, KeyboardInterrupt)
TIMEOUT = httpx.Timeout(120.0, connect=10.0)


@dataclass(frozen=True, slots=True)
class Sent:
    id: str
    points: int
    values: int
    files: int
    left_out: tuple[str, ...] = ()  # sentences


def send(client: Client, team: str, experiment: str, run: SourceRun) -> Sent:
    """The id comes from the source, and equal points and values count once. Entries that cannot be kept are left out.

    Raises ClientError and SourceError; a run that is not whole is kept as failed, and the same import completes it.
    """
    key = run_id(run, run.identity, team, experiment)
    parameters, problems = plain_values.parameters(run.parameters)
    tags, of_tags = plain_values.tags(run.tags)
    fields: dict[str, Any] = {
        "run_id": key, "team": team, "experiment": experiment, "name": run.name[:MOST_NAME], "source": run.source,
        "parameters": parameters, "tags": tags, "description": run.description,
        "group": run.group[:MOST_NAME], "started_ms": run.started_ms,
        "parent": run.parent and run_id(run, run.parent, team, experiment),
    }  # fmt: skip
    client.call(
        "POST", "runs", json={name: value for name, value in fields.items() if value not in ("", None)}
    )
    sender = _Sender(client, key)
    try:
        again = {"parameters": parameters, "tags": tags, "lineage": dict(run.lineage)}
        sender.log({name: value for name, value in again.items() if value})
        for content in run.content():
            sender.take(content)
        sender.flush()
    except _Endings:
        with suppress(ClientError):
            _finish(client, key, "failed", run)
        raise
    if run.state != "running":
        _finish(client, key, run.state, run)
    left_out = (*run.notes, *problems, *of_tags, *sender.left_out)
    return Sent(key, sender.points, sender.values, sender.files, left_out)


def _finish(client: Client, key: str, state: str, run: SourceRun) -> None:
    ended = {} if run.ended_ms is None else {"ended_ms": run.ended_ms}
    client.call("POST", f"runs/{key}/finish", json={"state": state, **ended})


class _Sender:
    def __init__(self, client: Client, key: str) -> None:
        self._client, self._path = client, f"runs/{key}"
        self._waiting: dict[str, list[list[object]]] = {}
        self._names: dict[str, str] = {}  # of a metric → as it is kept, "" for one that is left out
        self._attempt = self._count = 0
        self.points = self.values = self.files = 0
        self.left_out: list[str] = []

    def take(self, content: Point | Rich | RunFile) -> None:
        match content:
            case Point():
                self._take_point(content)
            case Rich():
                self._send_value(content)
            case RunFile():
                with content.opened() as path:
                    self._client.send_file(f"{self._path}/files/{quote(content.path)}", path)
                self.files += 1

    def _take_point(self, point: Point) -> None:
        name = self._name(point.key)
        if not name:
            return
        if plain_values.step_of(point.step) is None:
            self._leave_out(f"{name} has a step that is no whole number of 64 bits: {point.step:.3e}")
            return
        if point.attempt != self._attempt:
            self.flush()
            self._attempt = point.attempt
        at_ms = min(max(point.at_ms, 0), LAST_MS)
        self._waiting.setdefault(name, []).append([point.step, number(point.value), at_ms])
        self._count += 1
        if self._count >= MOST_POINTS:
            self.flush()

    def _name(self, key: str) -> str:
        if key not in self._names:
            kept, problems = sorted_out("metric", {key: 0.0})
            self._names[key] = next(iter(kept), "")
            for problem in problems:
                self._leave_out(problem)
        return self._names[key]

    def _leave_out(self, sentence: str) -> None:
        if sentence not in self.left_out:
            self.left_out.append(sentence)

    def flush(self) -> None:
        if self._waiting:
            metrics = [{"key": key, "points": points} for key, points in self._waiting.items()]
            self.log({"metrics": metrics} | ({"attempt": self._attempt} if self._attempt else {}))
            self.points += self._count
            self._waiting, self._count = {}, 0

    def log(self, body: Mapping[str, Any]) -> None:
        """A batch is known by its content: what was sent before changes nothing."""
        if not body:
            return
        content = json.dumps(body, sort_keys=True, ensure_ascii=False).encode(errors="replace")
        source = hashlib.sha256(content).hexdigest()[:32]
        data = json.dumps({**body, "source": source, "sequence": 1}, ensure_ascii=False)
        headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        packed = gzip.compress(data.encode(errors="replace"), 1, mtime=0)
        self._client.call("POST", f"{self._path}/log", content=packed, headers=headers, timeout=TIMEOUT)

    def _send_value(self, value: Rich) -> None:
        fields = {
            "key": value.key,
            "step": value.step,
            "index": value.index,
            "at_ms": value.at_ms,
            "type": value.kind,
        } | ({"caption": value.caption} if value.caption else {})
        path = f"{self._path}/values"
        try:
            if value.document is not None:
                self._client.call("POST", path, json={**fields, "document": value.document}, timeout=TIMEOUT)
            else:
                name = f"{value.index}{value.suffix}"
                data = {name: str(field) for name, field in fields.items()}
                self._client.call(
                    "POST", path, data=data, files={"file": (name, value.data)}, timeout=TIMEOUT
                )
        except ApiError as error:
            if error.status not in (400, 413, 415, 422):
                raise
            self.left_out.append(f"{value.kind} {value.key} of step {value.step}: {error}")
            return
        self.values += 1


def parents_first(runs: Sequence[SourceRun]) -> list[SourceRun]:
    """In an order in which each run stands after the one above it."""
    by_identity = {run.identity: run for run in runs}
    ordered: dict[str, SourceRun] = {}

    def add(run: SourceRun, above: frozenset[str]) -> None:
        parent = by_identity.get(run.parent)
        if parent is not None and parent.identity not in above:
            add(parent, above | {run.identity})
        ordered.setdefault(run.identity, run)

    for run in runs:
        add(run, frozenset())
    return list(ordered.values())
