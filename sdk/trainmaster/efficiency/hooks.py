"""What torch tells the meter: loaders of data, modules that change to evaluation, the device and its memory.

The hooks are set once a process, as soon as torch is there, and lead to the meter of the newest run.
"""

from __future__ import annotations

import resource
import sys
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from trainmaster.efficiency.meter import Meter

_meter: weakref.ref[Meter] | None = None
_hooked = False


def follow(meter: Meter) -> None:
    """Lead the hooks to this meter, and set them where torch has been imported."""
    global _meter, _hooked
    _meter = weakref.ref(meter)
    if not _hooked and "torch" in sys.modules:
        _hooked = True
        import torch
        from torch.utils.data import dataloader

        _time_loaders(dataloader._BaseDataLoaderIter)
        _watch_modes(torch.nn.Module, torch.compiler.is_compiling)


def _current() -> Meter | None:
    return _meter() if _meter is not None else None


def loaded(seconds: float, samples: int) -> None:
    """A batch came out of a loader that is not torch's."""
    if (meter := _current()) is not None:
        meter.loaded(seconds, samples)


def _time_loaders(iterator: Any) -> None:
    original = iterator.__next__

    @wraps(original)
    def timed(self: Any) -> Any:
        meter = _current()
        if meter is None:
            return original(self)
        began = time.perf_counter()
        batch = original(self)
        meter.loaded(time.perf_counter() - began, _samples(batch))
        return batch

    iterator.__next__ = timed


def _watch_modes(module: Any, is_compiling: Callable[[], bool]) -> None:
    """`eval()` calls `train(False)`, and `train()` itself for each child: only the outermost call counts. A model that
    is compiled or exported evaluates nothing, and a clock in its code could not be compiled."""
    original = module.train
    depth = 0

    @wraps(original)
    def watched(self: Any, mode: bool = True) -> Any:
        nonlocal depth
        if is_compiling():
            return original(self, mode)
        meter = _current()
        if meter is not None and depth == 0 and self.training != mode:
            meter.switched(self, mode)
        depth += 1
        try:
            return original(self, mode)
        finally:
            depth -= 1

    module.train = watched


def _samples(batch: Any, depth: int = 0) -> int:
    """The length of the first tensor in it; 0 where it has none."""
    shape = getattr(batch, "shape", None)
    if shape is not None:
        return int(shape[0]) if len(shape) else 0
    if depth < 3:
        if isinstance(batch, dict):
            batch = list(batch.values())
        if isinstance(batch, list | tuple):
            return next(filter(None, (_samples(part, depth + 1) for part in batch)), 0)
    return 0


@dataclass(frozen=True, slots=True)
class Evaluated:
    seconds: float
    before: tuple[float, int]  # seconds of data and samples when it began


class Evaluations:
    """An evaluation lasts from `eval()` to `train()` of one module. A module that stays in evaluation mode, such as a
    frozen teacher, evaluates nothing."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._open: weakref.WeakKeyDictionary[Any, tuple[float, tuple[float, int]]] = (
            weakref.WeakKeyDictionary()
        )
        self._counted_until = 0.0
        self.begun = 0

    def switched(self, module: Any, training: bool, state: tuple[float, int]) -> Evaluated | None:
        now = self._clock()
        if not training:
            self.begun += 1
            self._open[module] = now, state
            return None
        began = self._open.pop(module, None)
        if began is None:
            return None
        start = max(began[0], self._counted_until)
        self._counted_until = now
        return Evaluated(now - start, min(began[1], state))

    def forget_before(self, moment: float) -> None:
        """A new window begins, whose counts are zero."""
        self._counted_until = max(self._counted_until, moment)
        for module in list(self._open):
            self._open[module] = self._open[module][0], (0.0, 0)


def device_name() -> str:
    """Of the GPU that this rank uses; empty without one."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return ""
    return str(torch.cuda.get_device_name())


def memory_bytes() -> float:
    """The most that was used so far: of the GPU as torch allocated it, else of the host by this process."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return float(torch.cuda.max_memory_reserved())
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(used if sys.platform == "darwin" else used * 1024)
