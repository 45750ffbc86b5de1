"""Checkpoints and artifacts that a script reported in its spool: copied into the store, then announced."""

from __future__ import annotations

import json
import re
import shutil
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agent.uplink.batch import Ack, ArtifactUploaded, Batch, CheckpointUploaded
from agent.uplink.cursors import Cursors, Source
from agent.work_folder import WorkFolder

_UPLOADED = (Source.CHECKPOINT, Source.ARTIFACT)
RETRY_SECONDS = (1.0, 2.0, 5.0, 15.0, 30.0)


@dataclass(frozen=True, slots=True)
class Uploaded:
    manifest_id: str
    manifest_json: str
    source_url: str
    etags: tuple[str, ...] = ()  # what the store calls each file, in the manifest's order


class Uploader(Protocol):
    def __call__(self, path: Path, kind: str, url: str) -> Uploaded:
        """Copy a file or folder into the store under `url`. Blocks; may raise anything; may be repeated."""


@dataclass(frozen=True, slots=True)
class Reported:
    rank: int
    source: Source
    offset: int
    next_offset: int
    event: dict[str, Any]


class Uploads:
    """One attempt's uploads, one at a time in the order of their events. Called by one thread only."""

    def __init__(
        self,
        folder: WorkFolder,
        cursors: Cursors,
        uploader: Uploader,
        executor: Executor,
        upload_url: str,
        keep_last: int,
        say: Callable[[str], None],
    ) -> None:
        self._folder, self._cursors = folder, cursors
        self._uploader, self._executor = uploader, executor
        self._upload_url, self._keep_last, self._say = upload_url.rstrip("/"), keep_last, say
        self._scanned: dict[int, int] = {}
        self._queue: deque[Reported] = deque()
        self._running: Future[Uploaded] | None = None
        self._ready: Batch | None = None
        self._failures = 0
        self._not_before = 0.0
        self._uploaded: list[tuple[int, Path]] = []

    @property
    def idle(self) -> bool:
        return not self._queue

    def step(self, now: float, spools: dict[int, Path], give_up: bool) -> Batch | None:
        """Look for new events, move the upload on; the batch that waits to be acknowledged, if there is one.

        `give_up`: the attempt ended long ago; what cannot be uploaded now is dropped, which the log says.
        """
        for rank, path in spools.items():
            self._scan(rank, path)
        if self._ready is None and self._running is not None and self._running.done():
            self._finish(now, give_up)
        if self._queue and self._running is None and self._ready is None and now >= self._not_before:
            self._begin(self._queue[0])
        if give_up and self._queue and self._running is None and self._ready is None:
            self._drop("it was still not in the store long after the attempt ended")
        return self._ready

    def acknowledge(self, ack: Ack) -> None:
        current = self._queue[0] if self._queue else None
        if current is None or self._ready is None or (ack.rank, ack.source) != (current.rank, current.source):
            return
        if ack.error or ack.next_offset >= current.next_offset:
            self._settle(current)

    def _scan(self, rank: int, path: Path) -> None:
        """To the end of the last whole line."""
        acknowledged = {source: self._cursors.offset(source, rank) for source in _UPLOADED}
        position = self._scanned.get(rank, min(acknowledged.values()))
        try:
            with open(path, "rb") as file:
                file.seek(position)
                for line in file:
                    if not line.endswith(b"\n"):
                        break
                    end = position + len(line)
                    source = _source(line)
                    if source is not None and end > acknowledged[source]:
                        event = _parse(line)
                        if event is not None:
                            self._queue.append(Reported(rank, source, position, end, event))
                    position = end
        except OSError:
            return
        self._scanned[rank] = position

    def _begin(self, reported: Reported) -> None:
        path = (self._folder.path / str(reported.event.get("path", ""))).resolve()
        if not path.is_relative_to(self._folder.path.resolve()) or not path.exists():
            self._drop(f"{reported.event.get('path')} is not in the folder of the attempt (any more)")
            return
        if not self._upload_url:
            self._drop("the server named no store for it")
            return
        name = re.sub(r"[^A-Za-z0-9._-]", "_", path.name)
        url = f"{self._upload_url}/{self._folder.attempt_id}/{reported.source}-{reported.rank}-{name}"
        kind = "checkpoint" if reported.source is Source.CHECKPOINT else "artifact"
        self._running = self._executor.submit(self._uploader, path, kind, url)

    def _finish(self, now: float, give_up: bool) -> None:
        assert self._running is not None
        running, self._running = self._running, None
        error = running.exception()
        if error is None:
            self._failures = 0
            self._ready = _announce(self._folder.attempt_id, self._queue[0], running.result())
            return
        wait = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        if self._failures == 0:
            self._say(f"{_title(self._queue[0])} could not be uploaded: {error}. It is tried again.")
        self._failures += 1
        self._not_before = now + wait
        if give_up:
            self._drop(str(error))

    def _drop(self, why: str) -> None:
        self._say(f"{_title(self._queue[0])} was not uploaded: {why}.")
        self._settle(self._queue[0], uploaded=False)

    def _settle(self, reported: Reported, uploaded: bool = True) -> None:
        self._queue.popleft()
        self._ready, self._failures, self._not_before = None, 0, 0.0
        self._cursors.move(reported.source, reported.rank, reported.next_offset)
        if uploaded and reported.source is Source.CHECKPOINT:
            self._prune(reported)

    def _prune(self, reported: Reported) -> None:
        """The store has it now, so this node keeps only the newest few, for a restart in place."""
        path = self._folder.path / str(reported.event["path"])
        self._uploaded = sorted({*self._uploaded, (int(reported.event.get("step", 0)), path)})
        excess = len(self._uploaded) - self._keep_last if self._keep_last else 0
        for _, old in self._uploaded[: max(0, excess)]:
            shutil.rmtree(old, ignore_errors=True)
        self._uploaded = self._uploaded[max(0, excess) :]


def _source(line: bytes) -> Source | None:
    """A cheap look before parsing: nearly all lines are metrics."""
    if b'"checkpoint"' in line:
        return Source.CHECKPOINT
    return Source.ARTIFACT if b'"artifact"' in line else None


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(line)
    except ValueError:
        return None
    return event if isinstance(event, dict) and event.get("kind") in ("checkpoint", "artifact") else None


def _announce(attempt_id: str, reported: Reported, uploaded: Uploaded) -> Batch:
    event = reported.event
    checkpoint = artifact = None
    if reported.source is Source.CHECKPOINT:
        checkpoint = CheckpointUploaded(
            step=int(event.get("step", 0)),
            manifest_id=uploaded.manifest_id,
            manifest_json=uploaded.manifest_json,
            source_url=uploaded.source_url,
            metrics_json=json.dumps(event.get("metrics") or {}),
            saved_at_ms=int(event.get("at_ms", 0)),
            etags=uploaded.etags,
        )
    else:
        artifact = ArtifactUploaded(
            str(event.get("name", "")),
            uploaded.manifest_id,
            uploaded.manifest_json,
            uploaded.source_url,
            uploaded.etags,
        )
    return Batch(
        attempt_id,
        reported.rank,
        reported.source,
        reported.offset,
        reported.next_offset,
        checkpoint=checkpoint,
        artifact=artifact,
    )


def _title(reported: Reported) -> str:
    if reported.source is Source.CHECKPOINT:
        return f"The checkpoint of step {reported.event.get('step')}"
    return f'The artifact "{reported.event.get("name")}"'
