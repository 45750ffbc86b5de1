"""Log files that stay small on disk while a rank goes on appending to them."""

from __future__ import annotations

import ctypes
import os
import sys

from agent.job_files import JobPath
from agent.uplink.cursors import Gap
from agent.uplink.tail import PIECE_BYTES

_KEEP_SIZE, _PUNCH_HOLE = 0x01, 0x02
_BLOCK = 4096


def gap_for(file: JobPath, acknowledged: int, known: Gap | None, cap_bytes: int) -> Gap | None:
    """The part to give up when more than `cap_bytes` wait for the server: the middle.

    The beginning tells how it started, the end how it is now. A known gap only grows.
    """
    size = file.size()
    head = max(cap_bytes // 4, 2 * PIECE_BYTES)
    tail = max(cap_bytes - head, 2 * PIECE_BYTES)
    pending = known if known is not None and known.end > acknowledged else None
    waiting = size - (acknowledged if pending is None else pending.end)
    if waiting <= head + tail:
        return known
    start = pending.start if pending is not None else _after_line(file, acknowledged + head)
    end = _after_line(file, size - tail)
    return Gap(start, end) if end > start else known


def punch(file: JobPath, start: int, end: int) -> bool:
    """Gives the blocks between back to the file system; offsets stay. False where it cannot."""
    start, end = -(-start // _BLOCK) * _BLOCK, end // _BLOCK * _BLOCK
    if end <= start or sys.platform != "linux":
        return False
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
        fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        with file.open(os.O_WRONLY) as opened:
            return bool(fallocate(opened.fileno(), _KEEP_SIZE | _PUNCH_HOLE, start, end - start) == 0)
    except (OSError, AttributeError):  # no such file, or a C library without it
        return False


def _after_line(file: JobPath, offset: int) -> int:
    """The first line's beginning at or after the offset, so that a cut tears no line and no secret value."""
    line_end = file.read(offset, PIECE_BYTES).find(b"\n")
    return offset + line_end + 1 if line_end >= 0 else offset
