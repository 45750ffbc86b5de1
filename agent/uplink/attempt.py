"""Everything that one attempt sends up: its logs, its spools, its uploads."""

from __future__ import annotations

import re
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from agent.uplink.batch import LAUNCHER_RANK_BASE, Ack, Batch
from agent.uplink.bounds import gap_for, punch
from agent.uplink.cursors import Cursors, Gap, Source
from agent.uplink.masking import Mask
from agent.uplink.tail import (
    IDLE_SECONDS,
    Piece,
    gap_piece,
    idle_piece,
    log_piece,
    same_piece,
    size_of,
    spool_piece,
)
from agent.uplink.uploads import Uploader, Uploads
from agent.work_folder import WorkFolder

_RANK_FILE = re.compile(r"rank-(\d{1,9})\.(?:log|jsonl)")
_BOUNDS_EVERY_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class UplinkPlan:
    """What the uplink has to know of an attempt."""

    folder: WorkFolder
    node_rank: int
    upload_url: str
    keep_last: int
    log_cap_bytes: int
    upload_limit_seconds: int


class AttemptUplink:
    """Stop and wait for each file: one batch under way, the next after its acknowledgement.

    `step` and `acknowledge` are called by one thread at a time; the other methods from any.
    """

    def __init__(self, plan: UplinkPlan, mask: Mask | None, uploader: Uploader, executor: Executor) -> None:
        self.attempt_id = plan.folder.attempt_id
        self._plan, self._mask = plan, mask
        self._cursors = Cursors(plan.folder.uplink_file)
        self._under_way: dict[tuple[Source, int], Batch] = {}
        self._punched: dict[int, int] = {}
        self._growth: dict[Path, tuple[int, float]] = {}
        self._ended_at: float | None = None
        self._bounds_at = 0.0
        self._drained = False
        self._uploads = Uploads(
            plan.folder, self._cursors, uploader, executor, plan.upload_url, plan.keep_last, self._say
        )

    @property
    def knows_secrets(self) -> bool:
        return self._mask is not None

    @property
    def drained(self) -> bool:
        """Everything has been acknowledged, and nothing more will come."""
        return self._drained

    def know_secrets(self, mask: Mask) -> None:
        self._mask = mask

    def end(self) -> None:
        """No process of the attempt writes any more: half lines are whole now, and uploads have a limit."""
        if self._ended_at is None:
            self._ended_at = time.monotonic()

    def send_again(self) -> None:
        """The connection was lost, and with it every batch under way."""
        self._under_way.clear()

    def step(self, now: float) -> list[Batch]:
        """The batches to send now. Also moves uploads on and keeps the logs within their bounds."""
        ended = self._ended_at is not None
        logs, spools = self._logs(), _ranked(self._plan.folder.spool)
        late = self._ended_at is not None and now > self._ended_at + self._plan.upload_limit_seconds
        batches = [self._uploads.step(now, spools, give_up=late)]
        for rank, path in spools.items():
            batches.append(self._next(Source.SPOOL, rank, path, ended))
        for rank, path in logs.items():
            batches.append(self._next(Source.LOG, rank, path, ended))
        if now >= self._bounds_at:
            self._bounds_at = now + _BOUNDS_EVERY_SECONDS
            for rank, path in logs.items():
                self._hold_bounds(rank, path)
        fresh = [batch for batch in batches if batch is not None and self._is_fresh(batch)]
        for batch in fresh:
            self._under_way[batch.source, batch.rank] = batch
        self._cursors.flush()
        self._drained = ended and not self._under_way and self._uploads.idle
        return fresh

    def acknowledge(self, ack: Ack) -> None:
        """The server says where it stands; usually at the end of the batch, elsewhere after a reconnect."""
        batch = self._under_way.pop((ack.source, ack.rank), None)
        if batch is None:
            return
        if ack.source in (Source.CHECKPOINT, Source.ARTIFACT):
            self._uploads.acknowledge(ack)
            return
        # A batch that is refused for good would block all that follow it.
        offset = batch.next_offset if ack.error else ack.next_offset
        punched = self._punched.get(ack.rank, 0)
        if ack.source is Source.LOG and offset < punched:  # the server forgot what this node no longer has
            self._cursors.set_gap(ack.rank, Gap(offset, punched))
        self._cursors.move(ack.source, ack.rank, offset)

    def _is_fresh(self, batch: Batch) -> bool:
        return (batch.source, batch.rank) not in self._under_way

    def _next(self, source: Source, rank: int, path: Path, ended: bool) -> Batch | None:
        if (source, rank) in self._under_way:
            return None
        offset = self._cursors.offset(source, rank)
        if offset >= size_of(path):
            return None
        piece = self._piece(source, rank, path, offset, ended)
        if piece is None:
            return None
        self._cursors.plan(source, rank, piece.next_offset)
        return Batch(self.attempt_id, rank, source, piece.offset, piece.next_offset, piece.data)

    def _piece(self, source: Source, rank: int, path: Path, offset: int, ended: bool) -> Piece | None:
        if self._mask is None:
            return self._withheld(path, offset) if ended else None
        gap = self._cursors.gap(rank) if source is Source.LOG else None
        if gap is not None and gap.start <= offset < gap.end:
            return gap_piece(offset, gap)
        planned = self._cursors.planned(source, rank)
        if planned is not None:
            return same_piece(path, offset, planned, self._mask, is_log=source is Source.LOG)
        if source is Source.SPOOL:
            return spool_piece(path, offset, self._mask)
        return self._log(path, offset, gap, ended, self._mask)

    def _log(self, path: Path, offset: int, gap: Gap | None, ended: bool, mask: Mask) -> Piece | None:
        limit = gap.start if gap is not None and gap.start > offset else None
        piece = log_piece(path, offset, mask, limit, whole=ended)
        if piece is not None:
            self._growth.pop(path, None)
            return piece
        size, now = size_of(path), time.monotonic()
        seen, since = self._growth.get(path, (-1, now))
        if seen != size:
            self._growth[path] = (size, now)
        elif now - since >= IDLE_SECONDS:
            return idle_piece(path, offset, mask)
        return None

    def _withheld(self, path: Path, offset: int) -> Piece:
        """After a restart the values may be unknown for ever; better no text than a secret in it."""
        size = size_of(path)
        line = (
            f"[trainmaster] {size - offset:,} bytes were withheld here: the agent was restarted after the"
            " attempt had ended, and the secrets to mask in them were not known any more.\n"
        )
        return Piece(offset, line.encode() if path.suffix == ".log" else b"", size)

    def _hold_bounds(self, rank: int, path: Path) -> None:
        acknowledged, cap = self._cursors.offset(Source.LOG, rank), self._plan.log_cap_bytes
        known = self._cursors.gap(rank)
        gap = gap_for(path, acknowledged, known, cap)
        if gap is not None and gap != known:
            self._cursors.set_gap(rank, gap)
            punch(path, gap.start, gap.end)
        excess = min(acknowledged, size_of(path) - cap)
        if excess > self._punched.get(rank, 0) and punch(path, 0, excess):
            self._punched[rank] = excess

    def _logs(self) -> dict[int, Path]:
        logs = _ranked(self._plan.folder.logs)
        logs[LAUNCHER_RANK_BASE + self._plan.node_rank] = self._plan.folder.launcher_log
        return logs

    def _say(self, sentence: str) -> None:
        try:
            with open(self._plan.folder.launcher_log, "a") as log:
                log.write(f"[trainmaster] {sentence}\n")
        except OSError:
            pass  # the attempt has been forgotten meanwhile


def _ranked(folder: Path) -> dict[int, Path]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return {}
    found = ((_RANK_FILE.fullmatch(path.name), path) for path in paths)
    return {int(match[1]): path for match, path in found if match}
