"""How far one delivery is, as a value."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from enum import StrEnum

STORE = "store"  # the source when bytes come from the store and not from a peer


class TransferState(StrEnum):
    IDLE = "idle"
    RECEIVING = "receiving"
    VERIFYING = "verifying"
    COMPLETE = "complete"
    FAILED = "failed"
    EVICTED = "evicted"


@dataclass(frozen=True, slots=True)
class Progress:
    deployment_id: str
    state: TransferState
    chunks_done: bytes = b""  # bitmap: chunk i is bit i % 8 of byte i // 8
    bytes_done: int = 0
    bytes_total: int = 0
    rate_in: float = 0.0  # bytes per second
    rate_out: float = 0.0
    source_peer: str = ""  # node id, or STORE: whence the last piece came
    store_bytes: int = 0  # of all, what came from the store; counted since the agent's start
    error_code: str = ""
    error: str = ""  # why it failed; before that, why it asked again last
    retries: int = 0
    held: tuple[int, ...] = ()  # bytes, by lane
    beats: int = 0  # grows while it is at work, so that the platform hears of it though nothing moves
    distrusted: tuple[str, ...] = ()  # peers that sent bytes with another SHA-256
    refused_bytes: int = 0  # those bytes


class RateMeter:
    """Bytes per second over the last few seconds."""

    WINDOW = 3.0

    def __init__(self) -> None:
        self.total = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._in_window = 0

    def count(self, size: int) -> None:
        self.total += size
        self._recent.append((time.monotonic(), size))
        self._in_window += size
        self._forget()

    def rate(self) -> float:
        self._forget()
        if not self._recent:
            return 0.0
        # Early on the window is not full yet; one second at least, so that a single piece is no rate of its own.
        span = max(1.0, time.monotonic() - self._recent[0][0])
        return self._in_window / span

    def _forget(self) -> None:
        horizon = time.monotonic() - self.WINDOW
        while self._recent and self._recent[0][0] < horizon:
            self._in_window -= self._recent.popleft()[1]
