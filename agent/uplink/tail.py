"""Pieces of growing files, cut where nothing is torn: lines, characters, secret values."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass

from agent.job_files import JobPath
from agent.uplink.cursors import Gap
from agent.uplink.events import LONGEST_LINE, CheckpointSaved, Misfit, Report, parse
from agent.uplink.mask import Mask

PIECE_BYTES = 256 * 1024
assert PIECE_BYTES > LONGEST_LINE, "what fills a piece without an end is too long"
IDLE_SECONDS = 1.0  # a line without an end (a prompt, a progress bar) is sent after this long without growth


@dataclass(frozen=True, slots=True)
class Piece:
    offset: int
    data: bytes
    next_offset: int


def log_piece(file: JobPath, offset: int, mask: Mask, limit: int | None, whole: bool) -> Piece | None:
    """The next piece of a log, masked.

    Nothing at or behind `limit` is read: a gap begins there, after a whole line. `whole`: the file does not
    grow any more, its last line is taken as it is.
    """
    wanted = PIECE_BYTES if limit is None else min(PIECE_BYTES, limit - offset)
    data = file.read(offset, wanted)
    end = offset + len(data)
    if end == limit or (whole and end >= file.size()):
        cut = len(data)
    else:
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not cut and len(data) == PIECE_BYTES:
            cut = mask.safe_cut(data)
    return Piece(offset, mask.text(data[:cut]), offset + cut) if cut else None


def same_log_piece(file: JobPath, offset: int, end: int, mask: Mask) -> Piece | None:
    """A piece as it was cut before."""
    data = file.read(offset, end - offset)
    return Piece(offset, mask.text(data), end) if data else None


def gap_piece(offset: int, gap: Gap) -> Piece:
    line = (
        f"[trainmaster] {gap.end - offset:,} bytes of this log were dropped here: the server was away, and"
        " the node keeps only so much of an unsent log.\n"
    )
    return Piece(offset, line.encode(), gap.end)


def idle_piece(file: JobPath, offset: int, mask: Mask) -> Piece | None:
    """What can be sent of a line that has stopped growing without ending."""
    data = file.read(offset, PIECE_BYTES)
    cut = mask.safe_cut(data)
    return Piece(offset, mask.text(data[:cut]), offset + cut) if cut else None


def spool_lines(file: JobPath, offset: int, end: int | None = None) -> tuple[list[tuple[int, bytes]], int]:
    """Whole lines from there, a piece of them: the offset and the text of each, and where the next begins.

    A half-written last line is left out, as a killed rank leaves one behind. Of a line that is longer than a piece
    only the beginning comes. `end`: where the piece was cut before.
    """
    lead = 1 if offset else 0
    data = file.read(offset - lead, (PIECE_BYTES if end is None else end - offset) + lead)
    torn = bool(lead) and not data.startswith(b"\n")  # goes on in a line that was too long
    data = data[lead:]
    if end is None and (cut := data.rfind(b"\n") + 1):
        data = data[:cut]
    elif end is None and len(data) < PIECE_BYTES:
        return [], offset
    lines, position = [], offset
    for line in data.split(b"\n"):
        if line.strip() and not torn:
            lines.append((position, line))
        torn = False
        position += len(line) + 1
    return lines, offset + len(data) if end is None else end


def spool_piece(
    file: JobPath, offset: int, end: int | None, mask: Mask, refuse: Callable[[int, str], None]
) -> Piece | None:
    """The reports among the lines. `refuse` hears of a line that is none of the SDK's, and of each entry of a
    line that is left out: its offset, and why."""
    lines, end = spool_lines(file, offset, end)
    reports = []
    for position, line in lines:
        try:
            event = parse(line)
        except Misfit as misfit:
            refuse(position, str(misfit))
            continue
        for problem in event.left_out if isinstance(event, Report | CheckpointSaved) else ():
            refuse(position, problem)
        if isinstance(event, Report):  # checkpoints and artifacts go up once their bytes are in the store
            reports.append(json.dumps(mask.value(event.fields), ensure_ascii=False).encode() + b"\n")
    return Piece(offset, b"".join(reports), end) if end > offset else None
