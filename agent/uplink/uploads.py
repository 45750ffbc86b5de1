"""Checkpoints and artifacts that a script reported in its spool: copied into the store, then announced."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from typing import Protocol

from agent.job_files import JobPath
from agent.uplink.batch import Ack, ArtifactUploaded, Batch, CheckpointUploaded, ValueFile
from agent.uplink.checkpoint_files import PartDescription
from agent.uplink.cursors import Cursors, Source
from agent.uplink.events import ArtifactKept, CheckpointSaved, Misfit, ValueKept, parse
from agent.uplink.mask import Mask
from agent.uplink.tail import spool_lines
from agent.work_folder import WorkFolder
from platform_core.errors import TrainmasterError

UPLOADED = (Source.CHECKPOINT, Source.ARTIFACT, Source.VALUE)
LARGEST_VALUE = 10 << 20  # it goes up in one message
RETRY_SECONDS = (1.0, 2.0, 5.0, 15.0, 30.0)
_HOPELESS = frozenset({"manifest_invalid", "request_invalid"})  # the same files would be refused again
_MOST_WAITING = 1000  # events in memory; the others stay in the spool
_TOLD = frozenset(10**power for power in range(1, 10))
_PIECES_A_STEP = 16  # of each spool


@dataclass(frozen=True, slots=True)
class Uploaded:
    manifest_id: str
    manifest_json: str
    source_url: str
    etags: tuple[str, ...] = ()  # what the store calls each file, in the manifest's order
    paths: tuple[str, ...] = ()  # of the files, in the same order
    left_out: int = 0  # links and special files, which are not followed
    part: PartDescription | None = None  # of a checkpoint of format 2


class Uploader(Protocol):
    def __call__(self, place: JobPath, kind: str, url: str) -> Uploaded:
        """Copy a file or folder into the store under `url`. Blocks; may raise anything; may be repeated."""


@dataclass(frozen=True, slots=True)
class Reported:
    rank: int
    source: Source
    offset: int
    next_offset: int
    event: CheckpointSaved | ArtifactKept | ValueKept


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
        self._mask: Mask | None = None
        self._behind = True  # there are lines that were not looked at
        self._queue: deque[Reported] = deque()
        self._running: Future[Uploaded] | None = None
        self._ready: Batch | None = None
        self._failures = self._checkpoints_gone = 0
        self._failing_since: float | None = None
        self._now = self._not_before = 0.0
        self._uploaded: list[tuple[int, str]] = []

    @property
    def idle(self) -> bool:
        return not self._queue and not self._behind

    @property
    def failing_seconds(self) -> float:
        """For how long the store has refused or not answered what waits for it; 0 where it takes files."""
        return 0.0 if self._failing_since is None else self._now - self._failing_since

    def step(
        self, now: float, spools: dict[int, JobPath], mask: Mask | None, ended: bool, give_up: bool
    ) -> Batch | None:
        """Look for new events, move the upload on; the batch that waits to be acknowledged, if there is one.

        Without a `mask` no name is known to be free of secrets: it waits for one until the attempt has ended.
        `give_up`: the attempt ended long ago; what cannot be uploaded now is dropped, which the log says.
        """
        self._mask, self._now = mask, now
        if mask is None and not ended:
            return None
        behind = [rank for rank, file in spools.items() if self._scan(rank, file)]
        self._behind = bool(behind)
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
        elif (
            current.source is Source.CHECKPOINT
        ):  # the store no longer has a file that this part shares with others
            self._ready, self._not_before = None, self._now + RETRY_SECONDS[0]

    def _scan(self, rank: int, file: JobPath) -> bool:
        """Towards the end of the last whole line; whether more is left to look at."""
        acknowledged = {source: self._cursors.offset(source, rank) for source in UPLOADED}
        position = self._scanned.get(rank, min(acknowledged.values()))
        for _ in range(_PIECES_A_STEP):
            if len(self._queue) >= _MOST_WAITING:
                return True
            lines, end = spool_lines(file, position)
            if end == position:
                return False
            for offset, line in lines:
                reported = _reported(rank, offset, line)
                if reported is not None and reported.next_offset > acknowledged[reported.source]:
                    self._queue.append(reported)
            self._scanned[rank] = position = end
        return True

    def _begin(self, reported: Reported) -> None:
        place = JobPath(self._folder.path, reported.event.path)
        if not place.exists():
            self._gone(isinstance(reported.event, CheckpointSaved))
            return
        if isinstance(reported.event, ValueKept):
            self._read_value(reported, place)
            return
        if not self._upload_url:
            self._drop("the server named no store for it")
            return
        name = place.name.rpartition("/")[2]
        if self._mask is not None:
            name = self._mask.sentence(name)
        name = re.sub(r"[^A-Za-z0-9._-]", "_", name)
        url = f"{self._upload_url}/{self._folder.attempt_id}/{reported.source}-{reported.rank}-{name}"
        kind = "checkpoint" if reported.source is Source.CHECKPOINT else "artifact"
        self._running = self._executor.submit(self._uploader, place, kind, url)

    def _gone(self, checkpoint: bool) -> None:
        """Where saves are faster than uploads this goes on and on: of checkpoints the log has the 1st, 10th, 100th …"""
        why = (
            "its path leads to no file or folder of the attempt: a later save has replaced it, "
            "the script has deleted it, or it is a link, which is not followed"
        )
        self._checkpoints_gone += checkpoint
        if checkpoint and self._checkpoints_gone > 1:
            if self._checkpoints_gone not in _TOLD:
                self._settle(self._queue[0], uploaded=False)
                return
            why += f". This is number {self._checkpoints_gone:,}: its saves come faster than uploads"
        self._drop(why)

    def _read_value(self, reported: Reported, place: JobPath) -> None:
        """It is small, so it goes up as it is and not by way of the store."""
        assert isinstance(reported.event, ValueKept)
        data = place.read(0, LARGEST_VALUE + 1)
        if len(data) > LARGEST_VALUE:
            self._drop(f"it has more than {LARGEST_VALUE:,} bytes")
            return
        event, mask = reported.event, self._mask
        key, caption = (
            mask.sentence(text) if mask is not None else "" for text in (event.key, event.caption)
        )
        if not key:
            self._drop("the secrets to mask in its name are not known")
            return
        self._ready = Batch(
            self._folder.attempt_id, reported.rank, Source.VALUE, reported.offset, reported.next_offset, data,
            value=ValueFile(key, event.step, event.index, event.kind, event.at_ms, caption),
        )  # fmt: skip

    def _shows_secret(self, paths: tuple[str, ...]) -> bool:
        """Whether the page of artifacts would show a secret, as far as this node knows them."""
        mask = self._mask
        return mask is not None and any(mask.sentence(path) != path for path in paths)

    def _finish(self, now: float, give_up: bool) -> None:
        assert self._running is not None
        running, self._running = self._running, None
        error = running.exception()
        if error is None:
            self._uploaded_now(running.result())
            return
        if isinstance(error, TrainmasterError) and error.code in _HOPELESS:
            self._drop(error.sentence)
            return
        wait = RETRY_SECONDS[min(self._failures, len(RETRY_SECONDS) - 1)]
        if self._failures == 0:
            self._failing_since = now
            self._say(f"{_title(self._queue[0])} could not be uploaded: {error}. It is tried again.")
        self._failures += 1
        self._not_before = now + wait
        if give_up:
            self._drop(str(error))

    def _uploaded_now(self, uploaded: Uploaded) -> None:
        self._failures, self._failing_since = 0, None
        reported = self._queue[0]
        if reported.source is Source.ARTIFACT and self._shows_secret(uploaded.paths):
            self._drop("the name of a file in it has the value of a secret")
            return
        if uploaded.left_out:
            self._say(
                f"{_title(reported)} was uploaded without its {uploaded.left_out:,} links and special files."
            )
        self._ready = _announce(self._folder.attempt_id, reported, uploaded, self._mask)

    def _drop(self, why: str) -> None:
        self._say(f"{_title(self._queue[0])} was not uploaded: {why.rstrip('.')}.")
        self._settle(self._queue[0], uploaded=False)

    def _settle(self, reported: Reported, uploaded: bool = True) -> None:
        self._queue.popleft()
        self._ready, self._failures, self._failing_since, self._not_before = None, 0, None, 0.0
        self._cursors.move(reported.source, reported.rank, reported.next_offset)
        if uploaded and isinstance(reported.event, CheckpointSaved):
            self._prune(reported.event)

    def _prune(self, saved: CheckpointSaved) -> None:
        """The store has it now, so this node keeps only the newest few, for a restart in place."""
        self._uploaded = sorted({*self._uploaded, (saved.step, saved.path)})
        excess = len(self._uploaded) - self._keep_last if self._keep_last else 0
        for _, old in self._uploaded[: max(0, excess)]:
            JobPath(self._folder.path, old).remove()
        self._uploaded = self._uploaded[max(0, excess) :]


def _reported(rank: int, offset: int, line: bytes) -> Reported | None:
    """What does not fit is passed over: the log says so when the spool goes up."""
    if not any(
        kind in line for kind in (b'"checkpoint"', b'"artifact"', b'"value"')
    ):  # nearly all lines are metrics
        return None
    try:
        event = parse(line)
    except Misfit:
        return None
    if isinstance(event, CheckpointSaved | ArtifactKept | ValueKept):
        return Reported(rank, _SOURCES[type(event)], offset, offset + len(line) + 1, event)
    return None


_SOURCES = {
    CheckpointSaved: Source.CHECKPOINT, ArtifactKept: Source.ARTIFACT, ValueKept: Source.VALUE,
}  # fmt: skip


def _announce(attempt_id: str, reported: Reported, uploaded: Uploaded, mask: Mask | None) -> Batch:
    """Without a `mask` no name goes up."""
    event = reported.event
    checkpoint = artifact = None
    if isinstance(event, CheckpointSaved):
        metrics = mask.value(dict(event.metrics)) if mask is not None else {}
        checkpoint = CheckpointUploaded(
            step=event.step,
            manifest_id=uploaded.manifest_id,
            manifest_json=uploaded.manifest_json,
            source_url=uploaded.source_url,
            metrics_json=json.dumps(metrics),
            saved_at_ms=event.at_ms,
            etags=uploaded.etags,
        )
        if part := uploaded.part:
            checkpoint = replace(
                checkpoint, format=2, node_rank=part.node_rank, nodes=part.nodes, world_size=part.world_size,
                began_at_ms=part.began_at_ms, blocking_ms=part.blocking_ms, write_ms=part.write_ms,
                emergency=part.emergency,
            )  # fmt: skip
    elif isinstance(event, ArtifactKept):
        artifact = ArtifactUploaded(
            mask.sentence(event.name) if mask is not None else f"withheld-{reported.rank}-{reported.offset}",
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
    if isinstance(reported.event, CheckpointSaved):
        return f"The checkpoint of step {reported.event.step}"
    if isinstance(reported.event, ValueKept):
        return f'The {reported.event.kind} "{reported.event.key}" of step {reported.event.step}'
    return f'The artifact "{reported.event.name}"'
