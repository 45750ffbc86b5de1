"""The thread that sends a run while it runs. The training never waits for it."""

from __future__ import annotations

import random
import threading
import time

from trainmaster.client import ApiError, ClientError, UnexpectedAnswer, Unreachable
from trainmaster.console import warn
from trainmaster.tracking.sender import Sender

SEND_SECONDS = 1.0
BEAT_SECONDS = 30.0
FIRST_DELAY, LONGEST_DELAY = 1.0, 60.0  # seconds between tries while the platform is away
FLUSH_SECONDS = 60.0  # at the end of a run, as long as something is acknowledged


class Background(threading.Thread):
    """Sends until it is closed. It warns once when the platform is away, and goes on when it is back."""

    def __init__(self, sender: Sender, away: bool = False) -> None:
        """`away`: the platform did not answer, and a person was told so."""
        super().__init__(name="trainmaster-sender", daemon=True)
        self.sender = sender
        self._wake = threading.Event()
        self._closing = False
        self._give_up_at = 0.0
        self._away = away

    def close(self) -> None:
        """Send the rest; returns at the first failure, and after a minute at the latest."""
        self._give_up_at = time.monotonic() + FLUSH_SECONDS
        self._closing = True
        self._wake.set()
        if self.is_alive() and self is not threading.current_thread():
            self.join(FLUSH_SECONDS + 1)

    def run(self) -> None:
        failures, active_at = 0, time.monotonic()
        while True:
            closing = self._closing  # before the look at the spool, which has the end by then
            sent = False
            try:
                sent = self._send_what_waits()
                if not sent and not closing and time.monotonic() - active_at > BEAT_SECONDS:
                    self.sender.beat()
                    sent = True
                failures = 0
            except Exception as error:
                failures += 1
                if not passes(error):
                    kept = self.sender.folder.path
                    warn(f"{sentence(error)} Nothing more of this run is sent; it stays in {kept}")
                    return
                self._tell_away(error)
            if sent:
                active_at, self._away = time.monotonic(), False
            if closing and (failures or not sent or time.monotonic() > self._give_up_at):
                return
            delay = min(LONGEST_DELAY, FIRST_DELAY * 2 ** min(failures, 10)) * random.uniform(0.5, 1.0)
            self._wake.wait(delay if failures else SEND_SECONDS)

    def _send_what_waits(self) -> bool:
        sent = False
        while self.sender.send_next():
            sent = True
            if self._closing and time.monotonic() > self._give_up_at:
                break
        return sent

    def _tell_away(self, error: Exception) -> None:
        if not self._away:
            self._away = True
            warn(f"{sentence(error)} The run goes on and is sent when that has passed.")


def passes(error: Exception) -> bool:
    """Whether a later try may succeed: the platform is away or busy, or the disk is full."""
    if isinstance(error, ApiError):
        return error.status >= 500 or error.status in (408, 425, 429)
    return isinstance(error, Unreachable | UnexpectedAnswer | OSError)


def sentence(error: Exception) -> str:
    """What went wrong, for a person."""
    if isinstance(error, ApiError) and error.status == 401:
        return f"{error}. Run `trainmaster login`."
    if isinstance(error, ClientError | UnexpectedAnswer):
        return f"{str(error).rstrip('.')}."
    return f"This run cannot be sent: {error!r}."
