"""How a script learns that it should end: SIGTERM, or the `stop` file of the attempt."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from types import FrameType


class Stopping:
    """`asked` is True from the first SIGTERM on, or as soon as the file exists.

    SIGTERM is caught only from the first question on: a script that never asks must still end by it.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._asked = False
        self._listening = False

    def asked(self) -> bool:
        self._listen()
        if not self._asked and self._file is not None and self._file.exists():
            self._asked = True
        return self._asked

    def _listen(self) -> None:
        # Python allows handlers in the main thread only; elsewhere the file still works.
        if self._listening or threading.current_thread() is not threading.main_thread():
            return
        self._listening = True
        earlier = signal.getsignal(signal.SIGTERM)

        def remember(number: int, frame: FrameType | None) -> None:
            self._asked = True
            if callable(earlier):
                earlier(number, frame)

        signal.signal(signal.SIGTERM, remember)
