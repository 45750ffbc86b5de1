"""Progress of deployments: on a terminal one line each, redrawn; elsewhere a line for each change."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from platform_core.units import format_bytes, format_duration_ms
from trainmaster.answers import Deployment
from trainmaster.client import Client

PAUSE_SECONDS = 1.0
BARS = ("█░", "#-")  # the second for terminals without these characters


def settled(deployment: Deployment) -> bool:
    return deployment.is_settled


def watch(
    client: Client,
    deployment: Deployment,
    until: Callable[[Deployment], bool] = settled,
    pause: Callable[[float], None] = time.sleep,
    out: TextIO | None = None,
) -> Deployment:
    [ended] = watch_all(client, [deployment], until, pause, out)
    return ended


def watch_all(
    client: Client,
    deployments: Sequence[Deployment],
    until: Callable[[Deployment], bool] = settled,
    pause: Callable[[float], None] = time.sleep,
    out: TextIO | None = None,
) -> list[Deployment]:
    """Show the deployments until this holds for all of them."""
    shown, watched = Lines(out or sys.stderr), list(deployments)
    try:
        while True:
            shown.show(watched)
            if all(until(deployment) for deployment in watched):
                return watched
            pause(PAUSE_SECONDS)
            watched = [
                deployment if until(deployment) else client.deployment(deployment.id)
                for deployment in watched
            ]
    finally:
        shown.end()


class Lines:
    """Lines with bars on wide terminals, without on narrow ones."""

    def __init__(self, out: TextIO, width: Callable[[], int] | None = None) -> None:
        self._out, self._terminal = out, out.isatty()
        self._width = width or (lambda: shutil.get_terminal_size().columns)
        self._bar = BARS[0] if _has(out, BARS[0]) else BARS[1]
        self._drawn = 0
        self._printed: dict[str, str] = {}

    def show(self, deployments: Sequence[Deployment]) -> None:
        several = len(deployments) > 1
        names = [f"{row.model} v{row.version}  " if several else "" for row in deployments]
        if self._terminal:
            longest = max(map(len, names), default=0)
            texts = [
                f"{name:{longest}}{drawn(row, self._width() - longest, self._bar)}"[: self._width()]
                for name, row in zip(names, deployments, strict=True)
            ]
            up = f"\x1b[{self._drawn - 1}A" if self._drawn > 1 else ""
            self._out.write(up + "\n".join(f"\r\x1b[2K{text}" for text in texts))
            self._drawn = len(texts)
        for name, row in zip(names, deployments, strict=True):
            text = f"{name}{words(row)}"
            if not self._terminal and self._printed.get(row.id) != text:
                self._out.write(f"{text}\n")
                self._printed[row.id] = text
        self._out.flush()

    def end(self) -> None:
        """Later output begins on a new line."""
        if self._drawn:
            self._out.write("\n")
            self._out.flush()


def words(deployment: Deployment) -> str:
    """The progress without rates, which would change every second."""
    if switch := _switch(deployment):
        return "  ".join(switch[1])
    failed = f", {deployment.workers_failed} failed" if deployment.workers_failed else ""
    evicted = f", {deployment.workers_evicted} evicted" if deployment.workers_evicted else ""
    workers = f"{deployment.workers_complete} of {deployment.workers} workers complete{failed}{evicted}"
    return f"{deployment.status}  {deployment.progress:.0%}  {workers}"


def drawn(deployment: Deployment, width: int, bar: str = BARS[0]) -> str:
    """Never wider than the terminal, so that it can be redrawn."""
    share, parts = _switch(deployment) or _bytes(deployment)
    text = "  ".join([f"{share:4.0%}", *parts])
    length = min(40, width - len(text) - 2)
    if length < 10:
        return text[: max(0, width - 1)]
    full = int(share * length)
    return f"{bar[0] * full}{bar[1] * (length - full)} {text}"


def _bytes(deployment: Deployment) -> tuple[float, list[str]]:
    parts = [f"{deployment.workers_complete}/{deployment.workers} workers"]
    if deployment.workers_failed:
        parts.append(f"{deployment.workers_failed} failed")
    if deployment.rate and not deployment.is_finished:
        parts.append(f"{format_bytes(deployment.rate)}/s")
        left = max(0, deployment.bytes_total - deployment.bytes_done)
        parts.append(f"{format_duration_ms(1000 * left // deployment.rate)} left")
    return deployment.progress, [*parts, deployment.status]


def _switch(deployment: Deployment) -> tuple[float, list[str]] | None:
    """The progress of the rollout, once the files are there."""
    rollout = deployment.rollout
    if rollout is None or rollout.get("replaced_by"):
        return None
    state, nodes = str(rollout.get("state", "")), rollout.get("nodes", 0) or 1
    if state == "rolled_back":
        going, away = rollout.get("nodes_going_back", 0), rollout.get("nodes_away", 0)
        left = f"{going} still switch back" if going else ""
        lost = f"{away} lost, switch back when they reconnect" if away else ""
        parts = [part for part in (left, lost) if part] or ["every node runs its previous version"]
        return 1 - (going + away) / nodes, [*parts, "rolled back"]
    if deployment.status != "complete":
        return None
    active = rollout.get("nodes_active", 0)
    parts = [f"{active}/{nodes} nodes run it"]
    if failed := rollout.get("nodes_failed"):
        parts.append(f"{failed} failed")
    return active / nodes, [*parts, "active" if state == "active" else f"rollout {state}"]


def _has(out: TextIO, letters: str) -> bool:
    try:
        letters.encode(out.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
