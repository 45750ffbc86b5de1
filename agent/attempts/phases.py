"""How long each phase of an attempt's start took on this node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from platform_core.node.observed import StartPhase

IMAGE, LAUNCH = "image", "launch"


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class StartPhases:
    """Written by the thread that prepares and by the event loop, one after the other."""

    def __init__(self, now_ms: Callable[[], int] = _now_ms) -> None:
        self._now_ms = now_ms
        self.over: tuple[StartPhase, ...] = ()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """A phase that fails took its time too."""
        began_ms = self._now_ms()
        try:
            yield
        finally:
            self.over += (StartPhase(name, began_ms, self._now_ms()),)
