"""What a run measures of itself, and where it tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from trainmaster.efficiency import hooks
from trainmaster.efficiency.meter import Meter
from trainmaster.efficiency.profiling import Profiler, Recorded
from trainmaster.environment import JobEnvironment
from trainmaster.values import RichValue, Table

_COLUMNS = ("name", "kind", "calls", "milliseconds", "share of the time")


class Measures:
    """Of one rank: the meter of its loop, and the profiles that the platform orders."""

    def __init__(
        self,
        environment: JobEnvironment,
        tell: Callable[..., None],
        log_rich: Callable[[int, str, Sequence[RichValue]], None],
        now_ms: Callable[[], int],
        warn: Callable[[str], None],
    ) -> None:
        self._rank, self._tell, self._log_rich, self._now_ms = environment.rank, tell, log_rich, now_ms
        self._step = 0
        self.meter = Meter(environment.rank, environment.world_size, self._tell_values)
        self._profiler = Profiler(environment.folder, environment.rank, self._profiled, warn)

    def step(self, step: int) -> None:
        self._step = step
        self.meter.step(step)
        self._profiler.step(step)

    def _tell_values(self, values: Mapping[str, float]) -> None:
        """The step is the second of the wall clock, as in the samples of the agent."""
        self._tell("system", step=self._now_ms() // 1000, values=values)

    def _profiled(self, recorded: Recorded) -> None:
        found = recorded.summary
        name = recorded.trace.name
        self._tell("artifact", name=name, path=f"{recorded.trace.parent.name}/{name}")
        parts = ("compute", "communication", "copies", "idle", "waiting", "data")
        rows: list[Sequence[Any]] = [
            (f"all: {part}", part, "", round(share * found.wall_us / 1000, 3), round(share, 4))
            for part in parts
            for share in (getattr(found, part),)
        ]
        rows += [
            (
                line.name[:200],
                line.kind.value,
                line.calls,
                round(line.us / 1000, 3),
                round(line.us / found.wall_us, 4),
            )
            for line in found.lines
        ]
        self._log_rich(self._step, f"profile/rank-{self._rank}", [Table(_COLUMNS, rows)])
        values = {"communication_share": found.communication}
        if hooks.device_name():
            values |= {
                "idle_share": found.idle,
                "synchronising_share": found.waiting,
                "kernel_us": found.span_us,
            }
        self._tell_values(
            {f"ranks/{self._rank}/{name}": float(f"{value:.6g}") for name, value in values.items()}
        )
