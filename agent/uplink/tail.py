"""Pieces of growing files, cut where nothing is torn: lines, characters, secret values."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.uplink.cursors import Gap
from agent.uplink.masking import Mask

PIECE_BYTES = 256 * 1024
IDLE_SECONDS = 1.0  # a line without an end (a prompt, a progress bar) is sent after this long without growth


@dataclass(frozen=True, slots=True)
class Piece:
    offset: int
    data: bytes
    next_offset: int


def size_of(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def log_piece(path: Path, offset: int, mask: Mask, limit: int | None, whole: bool) -> Piece | None:
    """The next piece of a log, masked.

    Nothing at or behind `limit` is read: a gap begins there, after a whole line. `whole`: the file does not
    grow any more, its last line is taken as it is.
    """
    wanted = PIECE_BYTES if limit is None else min(PIECE_BYTES, limit - offset)
    data = _read(path, offset, wanted)
    end = offset + len(data)
    if end == limit or (whole and end >= size_of(path)):
        cut = len(data)
    else:
        cut = max(data.rfind(b"\n"), data.rfind(b"\r")) + 1
        if not cut and len(data) == PIECE_BYTES:
            cut = mask.safe_cut(data)
    return Piece(offset, mask.text(data[:cut]), offset + cut) if cut else None


def same_piece(path: Path, offset: int, end: int, mask: Mask, is_log: bool) -> Piece | None:
    """A piece as it was cut before."""
    data = _read(path, offset, end - offset)
    return Piece(offset, mask.text(data) if is_log else mask.events(data), end) if data else None


def gap_piece(offset: int, gap: Gap) -> Piece:
    line = (
        f"[trainmaster] {gap.end - offset:,} bytes of this log were dropped here: the server was away, and"
        " the node keeps only so much of an unsent log.\n"
    )
    return Piece(offset, line.encode(), gap.end)


def idle_piece(path: Path, offset: int, mask: Mask) -> Piece | None:
    """What can be sent of a line that has stopped growing without ending."""
    data = _read(path, offset, PIECE_BYTES)
    cut = mask.safe_cut(data)
    return Piece(offset, mask.text(data[:cut]), offset + cut) if cut else None


def spool_piece(path: Path, offset: int, mask: Mask) -> Piece | None:
    """Whole JSON lines, as the SDK wrote them; a half-written last line of a killed rank is left behind."""
    data = _read(path, offset, PIECE_BYTES)
    cut = data.rfind(b"\n") + 1
    if not cut and len(data) == PIECE_BYTES:
        data = _read(path, offset, 64 * PIECE_BYTES)  # one very long event
        cut = data.find(b"\n") + 1
    return Piece(offset, mask.events(data[:cut]), offset + cut) if cut else None


def _read(path: Path, offset: int, size: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            return file.read(size)
    except OSError:
        return b""
