"""Profiles that the platform orders of a running script, recorded by torch's profiler between two of its steps."""

from __future__ import annotations

import gzip
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from platform_core.efficiency.profiles import Kind, Span, Summary, kind_of_kernel, summary
from trainmaster.orders import OrdersFile, Profile

LOOK_SECONDS = 0.5
_WAITS = (
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "aten::item",
    "aten::_local_scalar_dense",
)
_DATA = ("enumerate(DataLoader)",)


@dataclass(frozen=True, slots=True)
class Recorded:
    """`trace` is a file of Chrome's trace format, compressed."""

    number: int
    trace: Path
    summary: Summary


class _Torch(Protocol):
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def export_chrome_trace(self, path: str) -> None: ...
    def events(self) -> Any: ...


class Profiler:
    """Follows the orders of one rank. `step` is called by the thread of the loop."""

    def __init__(
        self,
        work_folder: Path | None,
        rank: int,
        done: Callable[[Recorded], None],
        warn: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder, self._rank = work_folder, rank
        self._orders = OrdersFile(work_folder)
        self._done, self._warn, self._clock = done, warn, clock
        self._look_at = 0.0
        self._followed: int | None = None  # number of the last order
        self._recording: tuple[Profile, _Torch, int, float] | None = None

    def step(self, step: int) -> None:
        """Never raises: a profile that cannot be made costs a sentence in the log."""
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
        order = self._orders.read().profile
        if order.number <= (self._followed or 0):
            return
        self._followed = order.number
        if self._rank not in order.ranks or threading.current_thread() is not threading.main_thread():
            return
        if "torch" not in sys.modules:
            self._warn("a profile was ordered, but the script does not use torch")
            return
        profiler = _profiler()
        profiler.start()
        self._recording = order, profiler, step, time.perf_counter()

    def _go_on(self, step: int) -> None:
        assert self._recording is not None
        assert self._folder is not None
        order, profiler, began, at = self._recording
        if step - began < order.steps:
            return
        self._recording = None
        wall_us = (time.perf_counter() - at) * 1e6
        profiler.stop()
        name = f"profile-{order.number}-rank-{self._rank}.json"
        plain = self._folder / "artifacts" / f".writing-{name}"
        plain.parent.mkdir(parents=True, exist_ok=True)
        profiler.export_chrome_trace(str(plain))
        trace = plain.with_name(f"{name}.gz")
        with open(plain, "rb") as source, gzip.open(trace, "wb", compresslevel=4) as target:
            shutil.copyfileobj(source, target)
        plain.unlink()
        spans = list(_spans(profiler.events()))
        first = min((span.start for span in spans), default=0.0)
        self._done(Recorded(order.number, trace, summary(spans, first, first + wall_us, step - began)))


def _profiler() -> _Torch:
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
    made: _Torch = profile(activities=activities, acc_events=True)
    return made


def _spans(events: Any) -> Iterator[Span]:
    """Kernels where there is a GPU, else operators, which may lie inside each other."""
    listed = list(events)
    on_device = any("CUDA" in str(event.device_type) for event in listed)
    for event in listed:
        start, end, name = float(event.time_range.start), float(event.time_range.end), str(event.name)
        if name.startswith("ProfilerStep"):
            continue
        if name.startswith(_DATA):
            yield Span("DataLoader", Kind.DATA, start, end)
        elif "CUDA" in str(event.device_type):
            yield Span(name, kind_of_kernel(name), start, end)
        elif name in _WAITS:
            if on_device:
                yield Span(name, Kind.WAIT, start, end)
        elif kind_of_kernel(name) is Kind.COMMUNICATION:
            if not on_device:
                yield Span(name, Kind.COMMUNICATION, start, end)
        elif not on_device and name.startswith("aten::"):
            yield Span(name, Kind.COMPUTE, start, end, float(event.self_cpu_time_total))
