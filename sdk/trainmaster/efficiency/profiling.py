"""Recordings that the platform orders of a running script, made between two of its steps: a trace of torch's profiler,
its memory, or a flame graph of where its threads are."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from trainmaster.efficiency.recorders import Recorded, Recorder, recorder_of
from trainmaster.orders import OrdersFile, Profile

LOOK_SECONDS = 0.5


class Profiler:
    """Follows the orders of one rank. `step` is called by the thread of the loop."""

    def __init__(
        self,
        work_folder: Path | None,
        rank: int,
        done: Callable[[Recorded, int], None],
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._rank = work_folder, rank
        self._orders = OrdersFile(work_folder)
        self._done, self._warn, self._clock = done, warn, clock
        self._look_at = 0.0
        self._followed = 0  # number of the last order
        self._recording: tuple[Profile, Recorder, int, float] | None = None

    def step(self, step: int) -> None:
        """Never raises: a recording that cannot be made costs a sentence in the log."""
        if self._folder is None:
            return
        try:
            if self._recording is not None:
                self._go_on(step)
            elif (now := self._clock()) >= self._look_at:
                self._look_at = now + LOOK_SECONDS
                self._look(step)
        except Exception as error:
            self._recording = None
            self._warn(f"the profile that was ordered could not be made: {type(error).__name__}: {error}")

    def _look(self, step: int) -> None:
        order = next((each for each in self._orders.read().profiles if each.number > self._followed), None)
        if order is None:
            return
        self._followed = order.number
        if self._rank not in order.ranks or threading.current_thread() is not threading.main_thread():
            return
        recorder, why = recorder_of(order.kind)
        if recorder is None:
            self._warn(why)
            return
        recorder.start()
        self._recording = order, recorder, step, time.perf_counter()

    def _go_on(self, step: int) -> None:
        assert self._recording is not None
        assert self._folder is not None
        order, recorder, began, at = self._recording
        seconds = time.perf_counter() - at
        if step - began < order.steps or seconds < recorder.least_seconds:
            return
        self._recording = None
        folder = self._folder / "artifacts"
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / f"{recorder.stem}-{order.number}-rank-{self._rank}"
        self._done(recorder.finish(stem, step - began, seconds), order.number)
