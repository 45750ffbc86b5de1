"""What a run measures of itself, and where it tells it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from trainmaster.efficiency import hooks
from trainmaster.efficiency.meter import Meter
from trainmaster.efficiency.profiling import Profiler
from trainmaster.efficiency.recorders import Recorded
from trainmaster.environment import JobEnvironment
from trainmaster.values import RichValue, Table


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

    def _profiled(self, recorded: Recorded, order: int) -> None:
        for file in recorded.files:
            self._tell("artifact", name=file.name, path=f"{file.parent.name}/{file.name}")
        self._log_rich(
            self._step, f"{recorded.stem}/rank-{self._rank}", [Table(recorded.columns, recorded.rows)]
        )
        found = recorded.summary
        if found is None:
            return
        values = {"communication_share": found.communication, "profile": float(order)}
        if hooks.device_name():
            values |= {
                "idle_share": found.idle,
                "synchronising_share": found.waiting,
                "kernel_us": found.span_us,
            }
        self._tell_values(
            {f"ranks/{self._rank}/{name}": float(f"{value:.6g}") for name, value in values.items()}
        )
