"""A deployment under way: one line that is drawn again in a terminal, a line for each change anywhere else."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from typing import TextIO

from platform_core.units import format_bytes, format_duration_ms
from trainmaster.answers import Deployment
from trainmaster.client import Client

PAUSE_SECONDS = 1.0
BARS = ("█░", "#-")  # the second where the terminal has no such letters


def watch(
    client: Client,
    deployment: Deployment,
    pause: Callable[[float], None] = time.sleep,
    out: TextIO | None = None,
) -> Deployment:
    """Until it has ended."""
    shown = Line(out or sys.stderr)
    try:
        while True:
            shown.show(deployment)
            if deployment.is_finished:
                return deployment
            pause(PAUSE_SECONDS)
            deployment = client.deployment(deployment.id)
    finally:
        shown.end()


class Line:
    """Wide enough terminals get a bar; the narrow ones only the words."""

    def __init__(self, out: TextIO, width: Callable[[], int] | None = None) -> None:
        self._out, self._terminal = out, out.isatty()
        self._width = width or (lambda: shutil.get_terminal_size().columns)
        self._bar = BARS[0] if _has(out, BARS[0]) else BARS[1]
        self._told = ""

    def show(self, deployment: Deployment) -> None:
        if self._terminal:
            text = drawn(deployment, self._width(), self._bar)
            self._out.write(f"\r\x1b[2K{text}")
            self._told = text
        elif (text := words(deployment)) != self._told:
            self._out.write(f"{text}\n")
            self._told = text
        self._out.flush()

    def end(self) -> None:
        """What is written next begins on a line of its own."""
        if self._terminal and self._told:
            self._out.write("\n")
            self._out.flush()


def words(deployment: Deployment) -> str:
    """What changes seldom enough for a log: no rates."""
    failed = f", {deployment.workers_failed} failed" if deployment.workers_failed else ""
    gone = f", {deployment.workers_evicted} gave it up" if deployment.workers_evicted else ""
    workers = f"{deployment.workers_complete} of {deployment.workers} workers complete{failed}{gone}"
    return f"{deployment.status}  {deployment.progress:.0%}  {workers}"


def drawn(deployment: Deployment, width: int, bar: str = BARS[0]) -> str:
    """Never wider than the terminal, or it could not be drawn over."""
    parts = [f"{deployment.progress:4.0%}", f"{deployment.workers_complete}/{deployment.workers} workers"]
    if deployment.workers_failed:
        parts.append(f"{deployment.workers_failed} failed")
    if deployment.rate and not deployment.is_finished:
        parts.append(f"{format_bytes(deployment.rate)}/s")
        left = max(0, deployment.bytes_total - deployment.bytes_done)
        parts.append(f"{format_duration_ms(1000 * left // deployment.rate)} left")
    parts.append(deployment.status)
    text = "  ".join(parts)
    room = min(40, width - len(text) - 2)
    if room < 10:
        return text[: max(0, width - 1)]
    full = int(deployment.progress * room)
    return f"{bar[0] * full}{bar[1] * (room - full)} {text}"


def _has(out: TextIO, letters: str) -> bool:
    try:
        letters.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
