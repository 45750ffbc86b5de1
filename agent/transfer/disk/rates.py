"""How quickly bytes come and go."""

from __future__ import annotations

import time
from collections import deque


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
