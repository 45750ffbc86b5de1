"""How a script learns that it should end: SIGTERM, the `stop` file of the attempt, or a stop in `orders.json`."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from types import FrameType

from trainmaster.orders import LOOK_SECONDS, OrdersFile


class Stopping:
    """`asked` is True from the first SIGTERM on, or as soon as the file exists.

    SIGTERM is caught only from the first question on: a script that never asks must still end by it.
    """

    def __init__(self, file: Path | None, orders: OrdersFile) -> None:
        self._file, self._orders = file, orders
        self._asked = False
        self._look_at = 0.0
        self._listening = False

    def asked(self) -> bool:
        """Looks at the disk at most 20 times a second."""
        if not self._asked and (now := time.monotonic()) >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            exists = self._file is not None and self._file.exists()
            self._asked = exists or self._orders.read().stop is not None
        return self._asked

    def listen(self) -> None:
        """Python allows handlers in the main thread only; elsewhere the files still work."""
        if self._listening or threading.current_thread() is not threading.main_thread():
            return
        self._listening = True
        earlier = signal.getsignal(signal.SIGTERM)

        def remember(number: int, frame: FrameType | None) -> None:
            self._asked = True
            if callable(earlier):
                earlier(number, frame)

        signal.signal(signal.SIGTERM, remember)
