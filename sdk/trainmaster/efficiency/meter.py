"""Where the time of a training loop goes, in windows of a few seconds. Each window is one line of system values.

The loop tells its steps by `log()` and `checkpoint_due()`, and nothing else. A call costs two readings of a clock.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Literal

from platform_core.efficiency import peaks
from platform_core.efficiency.mfu import Missing, believable, mfu
from platform_core.efficiency.peaks import Precision
from platform_core.errors import TrainmasterError
from trainmaster.efficiency import hooks
from trainmaster.efficiency.flops import FlopCount, Flops, is_compiled
from trainmaster.meshes import layout
from trainmaster.plain_values import count_of

Part = Literal["data", "evaluation", "checkpoint"]
PARTS: tuple[Part, ...] = ("data", "evaluation", "checkpoint")
EVERY_SECONDS, EVERY_STEPS = 5.0, 5  # both, but a window of long steps ends after LONGEST_SECONDS
LONGEST_SECONDS = 30.0
RANKS_A_SECOND = 16  # of a large job, each rank less often
COUNTED_FROM_STEP, MOST_COUNTS = 3, 5  # steps seen before the FLOPs of one are counted, and tries


class Meter:
    """Of one rank. Its methods are called by the thread of the loop; none of them raises."""

    def __init__(
        self,
        rank: int,
        world_size: int,
        tell: Callable[[Mapping[str, float]], None],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._prefix, self._world_size = f"ranks/{rank}/", world_size
        self._tell, self._clock = tell, clock
        self._tokens, self._flops = 0.0, 0.0  # of a step of this rank, as the script gives them
        self._every = max(EVERY_SECONDS, world_size / RANKS_A_SECOND)
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._samples = 0
        self._began = 0.0
        self._first: int | None = None  # step at which the window began
        self._last = 0
        self._steps_seen = 0
        self._evaluated = hooks.Evaluations(clock)
        self._count: FlopCount | None = None
        self._counted = Flops()
        self._counts = 0
        self._missing: Missing | None = None

    def expect(self, tokens_per_step: float | None, flops_per_step: float | None) -> None:
        """What all ranks together compute in a step."""
        self._tokens = (count_of(tokens_per_step) or 0.0) / self._world_size
        self._flops = (count_of(flops_per_step) or 0.0) / self._world_size

    def step(self, step: int) -> None:
        """The loop has reached this step; a step that was reached before says nothing new."""
        if self._first is None:
            self._begin(step, self._clock())
            hooks.follow(self)
            return
        if step <= self._last:
            return
        steps, self._last = step - self._last, step
        self._steps_seen += 1
        if self._count is not None or (
            not self._counted.total and self._steps_seen >= COUNTED_FROM_STEP and self._counts < MOST_COUNTS
        ):
            self._count_flops(steps)
        now = self._clock()
        elapsed, steps = now - self._began, step - self._first
        if elapsed >= self._every and (steps >= EVERY_STEPS or elapsed >= LONGEST_SECONDS):
            self._close(now)
            self._begin(step, now)

    @contextmanager
    def measuring(self, part: Part) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        finally:
            self._seconds[part] += self._clock() - began

    def loaded(self, seconds: float, samples: int) -> None:
        """A batch came out of a loader of data."""
        self._seconds["data"] += seconds
        self._samples += samples

    def switched(self, module: Any, training: bool) -> None:
        """A module was put into training or evaluation mode."""
        state = (self._seconds["data"], self._samples)
        ended = self._evaluated.switched(module, training, state)
        if ended is not None:
            self._seconds["evaluation"] += ended.seconds
            self._seconds["data"], self._samples = ended.before  # what evaluation read is no training data

    def _begin(self, step: int, now: float) -> None:
        self._first = self._last = step
        self._began, self._samples = now, 0
        self._seconds = dict.fromkeys(PARTS, 0.0)
        self._evaluated.forget_before(now)

    def _close(self, now: float) -> None:
        wall = now - self._began
        steps = self._last - (self._first or 0)
        training = max(wall - self._seconds["evaluation"] - self._seconds["checkpoint"], 1e-9)
        values = {f"{part}_share": min(1.0, seconds / wall) for part, seconds in self._seconds.items()}
        values["step_seconds"] = training / steps
        if self._samples:
            values["samples_per_second"] = self._samples / training / _fed_alike()
        if self._tokens:
            values["tokens_per_second"] = self._tokens * steps / training
        values |= self._compute(steps / training)
        if memory := hooks.memory_bytes():
            values["memory_bytes"] = memory
        self._tell({self._prefix + name: float(f"{value:.6g}") for name, value in values.items()})

    def _compute(self, steps_per_second: float) -> dict[str, float]:
        flops = self._flops or self._counted.total
        if not flops:
            return {"flops_missing": float(self._missing)} if self._missing is not None else {}
        values = {"flops_per_second": flops * steps_per_second}
        precision = self._counted.precision or Precision.HALF
        share = mfu(values["flops_per_second"], peaks.peak(hooks.device_name(), precision))
        if share is not None and believable(share) is None:
            return {"flops_missing": float(Missing.IMPOSSIBLE)}
        if share is not None:
            values["mfu"] = share
            if self._counted.precision is not None:
                values["precision_bits"] = {"fp32": 32, "tf32": 19, "half": 16, "fp8": 8}[precision]
        return values

    def _count_flops(self, steps: int) -> None:
        """Between two calls; once more where the steps between them evaluated, saved or used no tensor."""
        with suppress(Exception):  # of a torch that counts otherwise: the run has no FLOPs then
            if self._count is None:
                if not self._flops and "torch" in sys.modules:
                    if is_compiled():
                        self._missing = Missing.COMPILED
                    self._count = FlopCount.begin()
                    self._before = dict(self._seconds), self._evaluated.begun
                    self._counts += 1
                return
            if not self._count.is_here:
                return
            count, self._count = self._count, None
            flops = count.end()
            self._missing = flops.missing or self._missing
            before, begun = self._before
            same = all(before[part] == self._seconds[part] for part in ("evaluation", "checkpoint"))
            if flops.total and same and begun == self._evaluated.begun:
                self._counted = flops.per(steps)


def _fed_alike() -> int:
    """Ranks that get the same samples, each of which counts its share: the sum over all ranks is that of the run."""
    try:
        sizes = layout()
    except (
        TrainmasterError
    ):  # of a variable that does not fit the ranks, which whoever uses the layout is told
        return 1
    return sizes.pp * sizes.cp * sizes.tp
