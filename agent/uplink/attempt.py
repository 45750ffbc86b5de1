"""Everything that one attempt sends up: its logs, its spools, its uploads."""

from __future__ import annotations

import contextlib
import re
import time
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

from agent.job_files import JobPath
from agent.uplink.batch import EVENT_FILES_RANK_BASE, LAUNCHER_RANK_BASE, SYSTEM_RANK_BASE, Ack, Batch
from agent.uplink.bounds import gap_for, punch
from agent.uplink.cursors import Cursors, Gap, Source
from agent.uplink.event_files import EventFiles
from agent.uplink.mask import Mask
from agent.uplink.tail import (
    IDLE_SECONDS,
    Piece,
    gap_piece,
    idle_piece,
    log_piece,
    same_log_piece,
    spool_piece,
)
from agent.uplink.uploads import UPLOADED, Uploader, Uploads
from agent.work_folder import WorkFolder

_RANK_FILE = re.compile(r"rank-(\d{1,9})\.(?:log|jsonl)")
_BOUNDS_EVERY_SECONDS = 2.0
_MOST_FILES = 10_000  # of ranks in one folder
_MOST_SENTENCES, _LONGEST_SENTENCE = 100, 400  # in launcher.log about what a job left
_SILENT_PIECES = 16  # of a spool, in one step


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
        self._growth: dict[JobPath, tuple[int, float]] = {}
        self._sentences = 0
        self._event_files = EventFiles(plan.folder, self._say, plan.log_cap_bytes)
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

    @property
    def failing_seconds(self) -> float:
        """For how long the store has not taken what this attempt has for it."""
        return self._uploads.failing_seconds

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
        self._event_files.step(now, ended)
        logs, spools = self._logs(), self._ranked("spool")
        batches = [self._uploads.step(now, spools, self._mask, ended, give_up=self.is_overdue(now))]
        own_spools = self._own_spools()
        for rank, path in (spools | own_spools).items():
            batches.append(self._next(Source.SPOOL, rank, path, ended))
        for rank, path in logs.items():
            batches.append(self._next(Source.LOG, rank, path, ended))
        if now >= self._bounds_at:
            self._bounds_at = now + _BOUNDS_EVERY_SECONDS
            for rank, path in logs.items():
                self._hold_bounds(rank, path)
            for rank, path in own_spools.items():
                self._punch(rank, path, self._cursors.offset(Source.SPOOL, rank))
        self._flush(ended)  # first: a batch whose end is not on disk must not go
        fresh = [batch for batch in batches if batch is not None and self._is_fresh(batch)]
        for batch in fresh:
            self._under_way[batch.source, batch.rank] = batch
        self._drained = ended and not self._under_way and self._uploads.idle and self._event_files.idle
        return fresh

    def is_overdue(self, now: float) -> bool:
        """It ended so long ago that what still cannot go up is given up."""
        return self._ended_at is not None and now > self._ended_at + self._plan.upload_limit_seconds

    def give_up(self, why: str) -> None:
        self._say(f"The rest of what it left was not sent: {why}.")
        self._drained = True

    def refuse(self, batch: Batch, why: str) -> None:
        """It can never go up; what follows it can."""
        self.acknowledge(Ack(batch.attempt_id, batch.rank, batch.source, batch.next_offset, why))

    def acknowledge(self, ack: Ack) -> None:
        """The server says where it stands; usually at the end of the batch, elsewhere after a reconnect."""
        batch = self._under_way.pop((ack.source, ack.rank), None)
        if batch is None:
            return
        if ack.error:
            self._say(f"{_title(batch)} was refused by the server and is left out: {ack.error}")
        if ack.source in UPLOADED:
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

    def _flush(self, ended: bool) -> None:
        """An ended attempt writes no more, so the next agent would cut the same batches without being told where."""
        try:
            self._cursors.flush()
        except OSError:
            if not ended:
                raise

    def _next(self, source: Source, rank: int, file: JobPath, ended: bool) -> Batch | None:
        if (source, rank) in self._under_way:
            return None
        for _ in range(_SILENT_PIECES):
            offset = self._cursors.offset(source, rank)
            if offset >= file.size():
                return None
            piece = self._piece(source, rank, file, offset, ended)
            if piece is None:
                return None
            if piece.data or source is Source.LOG:
                self._cursors.plan(source, rank, piece.next_offset)
                return Batch(self.attempt_id, rank, source, piece.offset, piece.next_offset, piece.data)
            self._cursors.move(source, rank, piece.next_offset)  # nothing in it is for the server
        return None

    def _piece(self, source: Source, rank: int, file: JobPath, offset: int, ended: bool) -> Piece | None:
        if self._mask is None:
            return self._withheld(file, offset) if ended else None
        gap = self._cursors.gap(rank) if source is Source.LOG else None
        if gap is not None and gap.start <= offset < gap.end:
            return gap_piece(offset, gap)
        planned = self._cursors.planned(source, rank)
        if source is Source.SPOOL:
            return spool_piece(file, offset, planned, self._mask, partial(self._refuse_line, file))
        if planned is not None:
            return same_log_piece(file, offset, planned, self._mask)
        return self._log(file, offset, gap, ended, self._mask)

    def _log(self, file: JobPath, offset: int, gap: Gap | None, ended: bool, mask: Mask) -> Piece | None:
        limit = gap.start if gap is not None and gap.start > offset else None
        piece = log_piece(file, offset, mask, limit, whole=ended)
        if piece is not None:
            self._growth.pop(file, None)
            return piece
        size, now = file.size(), time.monotonic()
        seen, since = self._growth.get(file, (-1, now))
        if seen != size:
            self._growth[file] = (size, now)
        elif now - since >= IDLE_SECONDS:
            return idle_piece(file, offset, mask)
        return None

    def _withheld(self, file: JobPath, offset: int) -> Piece:
        """After a restart the values may be unknown for ever; better no text than a secret in it."""
        size = file.size()
        line = (
            f"[trainmaster] {size - offset:,} bytes were withheld here: the agent was restarted after the"
            " attempt had ended, and the secrets to mask in them were not known any more.\n"
        )
        return Piece(offset, line.encode() if file.name.endswith(".log") else b"", size)

    def _hold_bounds(self, rank: int, file: JobPath) -> None:
        acknowledged, cap = self._cursors.offset(Source.LOG, rank), self._plan.log_cap_bytes
        known = self._cursors.gap(rank)
        gap = gap_for(file, acknowledged, known, cap)
        if gap is not None and gap != known:
            self._cursors.set_gap(rank, gap)
            punch(file, gap.start, gap.end)
        self._punch(rank, file, min(acknowledged, file.size() - cap))

    def _punch(self, rank: int, file: JobPath, excess: int) -> None:
        if excess > self._punched.get(rank, 0) and punch(file, 0, excess):
            self._punched[rank] = excess

    def _logs(self) -> dict[int, JobPath]:
        logs = self._ranked("logs")
        logs[LAUNCHER_RANK_BASE + self._plan.node_rank] = self._launcher_log
        return logs

    def _own_spools(self) -> dict[int, JobPath]:
        """What the agent itself reports of the attempt, where no job writes."""
        folder, node_rank = self._plan.folder, self._plan.node_rank
        return {
            base + node_rank: JobPath(folder.records, file.name)
            for base, file in (
                (SYSTEM_RANK_BASE, folder.system_spool),
                (EVENT_FILES_RANK_BASE, folder.events_spool),
            )
        }

    @property
    def _launcher_log(self) -> JobPath:
        return JobPath(self._plan.folder.path, "logs/launcher.log")

    def _ranked(self, folder: str) -> dict[int, JobPath]:
        place = JobPath(self._plan.folder.path, folder)
        matches = filter(None, map(_RANK_FILE.fullmatch, place.entries(_MOST_FILES)))
        return {int(match[1]): place / match[0] for match in matches if int(match[1]) < LAUNCHER_RANK_BASE}

    def _refuse_line(self, file: JobPath, offset: int, why: str) -> None:
        self._say(f"The line at byte {offset:,} of {file.name} was left out: {why}.")

    def _say(self, sentence: str) -> None:
        """A job can cause as many as it likes, so only the first go into its log."""
        self._sentences += 1
        if self._sentences > _MOST_SENTENCES:
            return
        masked = self._mask.sentence(sentence) if self._mask is not None else sentence
        line = f"[trainmaster] {masked[:_LONGEST_SENTENCE]}\n"
        if self._sentences == _MOST_SENTENCES:
            line += "[trainmaster] More of this kind is not reported.\n"
        with contextlib.suppress(OSError):  # the attempt has been forgotten meanwhile, or the disk is full
            self._launcher_log.append(line.encode(errors="replace"))


def _title(batch: Batch) -> str:
    return f"The {batch.source} of rank {batch.rank} from byte {batch.offset:,} to {batch.next_offset:,}"
