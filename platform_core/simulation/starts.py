"""Restart times measured in the simulation, as production measures them: the cost of stopping a job."""

from __future__ import annotations

from collections import deque
from collections.abc import MutableMapping
from dataclasses import replace

from platform_core.cluster.snapshot import RunningJob
from platform_core.scheduling.restarts import LATELY, restart_ms, size_class


class Starts:
    """First starts take no time here and are not measured."""

    def __init__(self, running: MutableMapping[str, RunningJob]) -> None:
        """`running` is updated with the measured times."""
        self._running = running
        self._own: dict[str, list[int]] = {}
        self._alike: dict[int, deque[int]] = {}

    def expected_ms(self, job_id: str, gpus: int) -> int | None:
        return restart_ms(self._own.get(job_id, ()), self._alike.get(size_class(gpus), ()))

    def took(self, job_id: str, gpus: int, took_ms: int) -> None:
        """The time from placement until the work continues, known up to a minute early."""
        its_class = size_class(gpus)
        self._own.setdefault(job_id, []).append(took_ms)
        self._alike.setdefault(its_class, deque(maxlen=LATELY)).append(took_ms)
        for job in list(self._running.values()):
            if size_class(job.num_gpus) == its_class:
                expected_ms = self.expected_ms(job.id, job.num_gpus)
                if expected_ms != job.restart_ms:
                    self._running[job.id] = replace(job, restart_ms=expected_ms)
