"""What the processes of attempts use, each reading since the one before."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import psutil

from agent.launchers import processes


@dataclass(frozen=True, slots=True)
class ProcessUse:
    process: psutil.Process
    key: tuple[int, float]  # pid and start, as numbers are given again
    cpu_cores: float
    rss_bytes: int


class ProcessMeter:
    """Keeps the CPU times of its last reading. Blocks a little; used by one thread at a time.

    A process that the last reading did not see counts with what it has used since its start: over the time between
    the readings if it is younger than that, otherwise (the agent has started again) over its life.
    """

    def __init__(self) -> None:
        self._cpu_seconds: dict[tuple[int, float], float] = {}
        self._read_at = time.monotonic()

    def read(self, roots: Iterable[int]) -> dict[int, list[ProcessUse]]:
        """By root, every process of its tree; those that end meanwhile are left out."""
        now = time.monotonic()
        elapsed, self._read_at = max(now - self._read_at, 1e-3), now
        seen: dict[tuple[int, float], float] = {}
        uses = {root: list(self._uses(root, elapsed, seen)) for root in roots}
        self._cpu_seconds = seen
        return uses

    def _uses(self, root: int, elapsed: float, seen: dict[tuple[int, float], float]) -> Iterable[ProcessUse]:
        for process in processes.tree(root):
            try:
                with process.oneshot():
                    times, key = process.cpu_times(), (process.pid, process.create_time())
                    resident = process.memory_info().rss
            except psutil.Error:
                continue
            seen[key] = times.user + times.system
            if key in self._cpu_seconds:
                cores = max(0.0, seen[key] - self._cpu_seconds[key]) / elapsed
            else:
                cores = seen[key] / max(elapsed, time.time() - key[1])
            yield ProcessUse(process, key, cores, resident)
