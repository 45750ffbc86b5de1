"""What restarts have taken in this history, measured as production does it: what stopping a job is taken to cost."""

from __future__ import annotations

from collections import deque
from collections.abc import MutableMapping
from dataclasses import replace

from platform_core.cluster.snapshot import RunningJob
from platform_core.scheduling.restarts import LATELY, restart_ms, size_class


class Starts:
    """First starts take no time here, so they tell nothing."""

    def __init__(self, running: MutableMapping[str, RunningJob]) -> None:
        """`running` is kept up to what is known."""
        self._running = running
        self._own: dict[str, list[int]] = {}
        self._alike: dict[int, deque[int]] = {}

    def expected_ms(self, job_id: str, gpus: int) -> int | None:
        return restart_ms(self._own.get(job_id, ()), self._alike.get(size_class(gpus), ()))

    def took(self, job_id: str, gpus: int, took_ms: int) -> None:
        """From its placement until its work goes on. That is known as soon as it has begun, up to a minute early."""
        its_class = size_class(gpus)
        self._own.setdefault(job_id, []).append(took_ms)
        self._alike.setdefault(its_class, deque(maxlen=LATELY)).append(took_ms)
        for job in list(self._running.values()):
            if size_class(job.num_gpus) == its_class:
                expected_ms = self.expected_ms(job.id, job.num_gpus)
                if expected_ms != job.restart_ms:
                    self._running[job.id] = replace(job, restart_ms=expected_ms)
