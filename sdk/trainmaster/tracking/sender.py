"""Sends the spool of one run, one request after the other."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from trainmaster.client import ApiError, Client
from trainmaster.tracking.batch import Entry, Event, entries, last_ms, log_body, next_piece
from trainmaster.tracking.folder import PIECE_BYTES, Cursor, RunFolder

TIMEOUT = httpx.Timeout(20.0, connect=5.0)
FILE_TIMEOUT = httpx.Timeout(120.0, connect=5.0)
GZIP_ABOVE = 1024
_REFUSED = frozenset({400, 413, 415, 422})  # this request for ever; another one may be taken


class Sender:
    """Called by one thread of the process that holds the folder. Raises ClientError, and OSError of the disk."""

    def __init__(self, folder: RunFolder, client: Client, warn: Callable[[str], None]) -> None:
        self.folder, self.client, self._warn = folder, client, warn
        self.identity = folder.identity()
        self.cursor = folder.cursor(client.url)
        self._created = False
        self._refused: set[tuple[str, str]] = set()  # fields and names that the platform does not take

    @property
    def url(self) -> str:
        """Where people watch the run."""
        return f"{self.client.url}/runs/{self.identity.id}"

    def send_next(self) -> bool:
        """Send the next request, if there is something to send; whether there was."""
        cursor = self.cursor
        size = cursor.planned - cursor.offset if cursor.planned > cursor.offset else PIECE_BYTES
        data = self.folder.read(cursor.offset, size)
        piece = next_piece(data, cursor.offset, full=len(data) == PIECE_BYTES)
        if piece is None:
            return False
        if piece.end != cursor.planned:
            self._move(replace(cursor, planned=piece.end))  # on disk before it is on its way
        if piece.events:
            try:
                self._send(piece.events, piece.end)
            except ApiError as error:
                if error.status not in _REFUSED or not self._created:
                    raise
                self._warn(
                    f"{_title(piece.events[0])} was refused by {self.client.url} and is left out: {error}"
                )
        ended = bool(piece.events) and piece.events[0]["kind"] == "finish"
        self._move(Cursor(cursor.url, piece.end, 0, ended))
        return True

    def beat(self) -> None:
        """Tell the platform that the run is alive, with a batch that carries nothing."""
        if self._created:
            self._post("log", {})

    def create(self) -> None:
        """Make the run, or find it: the platform knows its id from the first time."""
        identity = self.identity
        if not identity.team:
            identity = replace(identity, team=self.client.only_team())
        fields = {
            "run_id": identity.id, "team": identity.team, "experiment": identity.experiment, "name": identity.name,
            "group": identity.group, "parent": identity.parent, "source": "sdk",
        }  # fmt: skip
        body = {key: value for key, value in fields.items() if value}
        try:
            self.client.call("POST", "runs", json=body, timeout=TIMEOUT)
        except ApiError as error:
            if error.code != "idempotency_conflict":
                raise
            # People have moved it to another experiment since.
            self.client.call("GET", f"runs/{identity.id}", timeout=TIMEOUT)
        self._created = True
        if identity != self.identity:
            self.identity = identity
            self.folder.keep_identity(identity)

    def finish_killed(self) -> None:
        """End a run whose process left no end: it was killed after its last event."""
        if not self._created:
            self.create()
        at_ms = last_ms(self.folder.read(max(0, self.cursor.offset - PIECE_BYTES), PIECE_BYTES))
        self._finish("failed", at_ms)
        self._move(replace(self.cursor, ended=True))

    def _finish(self, state: str, ended_ms: int | None) -> None:
        self._post("finish", {"state": state} | ({} if ended_ms is None else {"ended_ms": ended_ms}))

    def _send(self, events: tuple[Event, ...], end: int) -> None:
        if not self._created:
            self.create()
        event = events[0]
        match event["kind"]:
            case "init":
                self._begin(event, end)
            case "finish":
                self._finish(event["state"], event["at_ms"])
            case "artifact":
                self._send_artifact(event)
            case "value":
                self._send_value(event)
            case _:
                self._log(events, end)

    def _begin(self, event: Event, end: int) -> None:
        """The first time, or again: the same folder goes on with a resumed run."""
        if self.cursor.ended:
            self.client.call("PATCH", f"runs/{self.identity.id}", json={"state": "running"}, timeout=TIMEOUT)
        self._log([event], end)

    def _log(self, events: Iterable[Event], end: int) -> None:
        found, problems = entries(events)
        for problem in problems:
            self._warn(problem)
        first = end - len(found) + 1  # an entry has more than one byte in the spool
        numbered = [
            (number, entry) for number, entry in enumerate(found, first) if not self._is_refused(entry)
        ]
        self._log_entries(numbered)

    def _is_refused(self, entry: Entry) -> bool:
        return (entry.field, entry.name) in self._refused

    def _log_entries(self, numbered: Sequence[tuple[int, Entry]]) -> None:
        """What the platform refuses is sent by halves, so that a refused entry costs no other.

        A part has the sequence number of its last entry, which is the same however often and in whatever parts it is
        sent: what the platform has up to that number is all that stands before it.
        """
        if not numbered:
            return
        found, sequence = [entry for _, entry in numbered], numbered[-1][0]
        try:
            self._post("log", {"source": self.identity.id, "sequence": sequence, **log_body(found)})
        except ApiError as error:
            if error.status not in _REFUSED:
                raise
            if len(found) > 1:
                middle = len(found) // 2
                self._log_entries(numbered[:middle])
                self._log_entries(numbered[middle:])
                return
            [entry] = found
            if not self._is_refused(entry):
                self._refused.add((entry.field, entry.name))
                self._warn(f"{entry.name[:60]} was refused by {self.client.url} and is left out: {error}")

    def _post(self, verb: str, body: Mapping[str, Any]) -> None:
        content = json.dumps(body, ensure_ascii=False).encode(errors="replace")
        headers = {"Content-Type": "application/json"}
        if len(content) > GZIP_ABOVE:
            content, headers["Content-Encoding"] = gzip.compress(content, 1, mtime=0), "gzip"
        path = f"runs/{self.identity.id}/{verb}"
        self.client.call("POST", path, content=content, headers=headers, timeout=TIMEOUT)

    def _send_value(self, event: Event) -> None:
        fields = {
            name: event[name]
            for name in ("key", "step", "index", "type", "at_ms", "caption")
            if name in event
        }
        if "document" in event:
            self._post("values", {**fields, "document": event["document"]})
            return
        file = self.folder.path / str(event["path"])
        if not file.is_file():
            self._warn(f"{file} is gone, so {_title(event)} is not sent")
            return
        path = f"runs/{self.identity.id}/values"
        data = {name: str(value) for name, value in fields.items()}
        with file.open("rb") as stream:
            self.client.call(
                "POST", path, data=data, files={"file": (file.name, stream)}, timeout=FILE_TIMEOUT
            )

    def _send_artifact(self, event: Event) -> None:
        """A file under its name, a folder file by file."""
        kept = self.folder.path / str(event["path"])
        files = sorted(path for path in kept.rglob("*") if path.is_file()) if kept.is_dir() else [kept]
        for file in files:
            name = file.relative_to(kept.parent).as_posix()
            if not file.is_file():
                self._warn(f"{file} is gone and is not sent")
                continue
            self.client.send_file(f"runs/{self.identity.id}/files/{quote(name)}", file)

    def _move(self, cursor: Cursor) -> None:
        self.folder.keep_cursor(cursor)
        self.cursor = cursor


def _title(event: Event) -> str:
    match event["kind"]:
        case "metrics" | "value":
            return f"what was logged at step {event.get('step')}"
        case "artifact":
            return f"the artifact {Path(str(event.get('path'))).name}"
        case kind:
            return f"the event {kind}"
