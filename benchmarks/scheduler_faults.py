"""What goes wrong while a trace is replayed, and how its jobs save: the flags of `benchmarks.scheduler` for that."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import click

from platform_core.checkpointing.interval import advise
from platform_core.cluster.snapshot import NodeView
from platform_core.jobs.constraints import SPOT
from platform_core.simulation import faults
from platform_core.simulation.workload import Departure, Saving, TraceJob, restart_ms

ADVISED = "advised"
WITHOUT = faults.Rates()


def _is_seconds(text: str) -> bool:
    return text.replace(".", "", 1).isdecimal()


@dataclass(frozen=True, slots=True)
class Faults:
    rates: faults.Rates = WITHOUT
    spot_fraction: float = 0.0
    checkpoint: str = "0"  # seconds of work between saves, or ADVISED
    save_s: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.spot_fraction <= 1:
            raise ValueError(f"a part of {self.spot_fraction} of the nodes are spot; it must be from 0 to 1")
        if self.save_s < 0:
            raise ValueError(f"a save takes {self.save_s} s; it must be 0 or more")
        if self.checkpoint != ADVISED and not _is_seconds(self.checkpoint):
            raise ValueError(f"jobs save every {self.checkpoint!r} s; it must be a number, or {ADVISED}")
        if self.checkpoint == ADVISED and not (self.save_s and self.rates.failures_per_day):
            needed = "--save-s and --node-failures-per-day"
            raise ValueError(f"how often to save is worked out from {needed}; both must be more than 0")

    @property
    def told(self) -> dict[str, object]:
        """What to add to a line; nothing where nothing goes wrong."""
        return {} if self == WHOLE else {"faults": asdict(self)}

    def marked(self, nodes: Sequence[NodeView]) -> list[NodeView]:
        """Evenly among them, spot nodes, to which only preemptible jobs go."""
        return [
            replace(node, labels=((SPOT, "yes"),), taints=(SPOT,)) if self._is_spot(number) else node
            for number, node in enumerate(nodes)
        ]

    def _is_spot(self, number: int) -> bool:
        return int((number + 1) * self.spot_fraction) > int(number * self.spot_fraction)

    def saving(self, jobs: Iterable[TraceJob], gpus_per_node: int) -> list[TraceJob]:
        """How often a job saves is its own; the flag is for those that do not say."""
        return [
            replace(
                job,
                saving=Saving(
                    job.saving.every_ms or self._every_ms(job, gpus_per_node), round(self.save_s * 1_000)
                ),
            )
            for job in jobs
        ]

    def _every_ms(self, job: TraceJob, gpus_per_node: int) -> int:
        if self.checkpoint != ADVISED:
            return round(float(self.checkpoint) * 1_000)
        between_ms, nodes = self.rates.mean_ms_between_failures, -(-job.gpus // gpus_per_node)
        assert between_ms is not None
        return advise(round(self.save_s * 1_000), between_ms, nodes, restart_ms(job.gpus)).interval_ms

    def departures(self, nodes: Iterable[NodeView], seed: int) -> Iterator[Departure]:
        return faults.departures(nodes, self.rates, lambda node: random.Random(f"{seed} {node}").random)


WHOLE = Faults()


def options(command: Callable[..., None]) -> Callable[..., None]:
    """The flags, as one value `faults`."""

    @click.option("--node-failures-per-day", default=0.0, show_default=True, help="Of each node, at random.")
    @click.option("--repair-s", default=3_600.0, show_default=True, help="Until a node that went is back.")
    @click.option("--spot-fraction", default=0.0, show_default=True, help="Part of the nodes that are spot.")
    @click.option(
        "--spot-notices-per-day",
        default=0.0,
        show_default=True,
        help="Of each spot node: gone in two minutes.",
    )
    @click.option(
        "--checkpoint-s", "checkpoint", default="0", show_default=True,
        help=f"Jobs save each time they have worked so long; 0: only when stopped; {ADVISED}: by the failures.",
    )  # fmt: skip
    @click.option("--save-s", default=0.0, show_default=True, help="How long a save takes.")
    @functools.wraps(command)
    def with_faults(
        node_failures_per_day: float,
        repair_s: float,
        spot_fraction: float,
        spot_notices_per_day: float,
        checkpoint: str,
        save_s: float,
        **others: Any,
    ) -> None:
        try:
            rates = faults.Rates(node_failures_per_day, round(repair_s * 1_000), spot_notices_per_day)
            told = Faults(rates, spot_fraction, checkpoint, save_s)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        command(faults=told, **others)

    return with_faults
