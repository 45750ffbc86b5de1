"""The history of deployments and models: time over the bound, copies from the store, failures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from platform_core.distribution.deployments.deployment import DeploymentState

LEAST_BOUND_MS = 1_000  # a shorter one says nothing: connecting takes longer than moving the bytes


def times_the_bound(took_ms: int, bound_ms: int) -> float | None:
    """The time in multiples of the bound; None if the model is too small to judge by its rate."""
    return took_ms / bound_ms if bound_ms >= LEAST_BOUND_MS else None


@dataclass(frozen=True, slots=True)
class Record:
    """A deployment that has ended."""

    id: str
    model: str
    state: DeploymentState
    began_ms: int
    ended_ms: int
    bound_ms: int  # 0: not known
    bytes: int  # of the model
    nodes: int
    store_bytes: int = 0
    retries: int = 0
    refused_bytes: int = 0
    failures: int = 0  # how often a node failed, also those that came back
    version: int = 0

    @property
    def took_ms(self) -> int:
        return self.ended_ms - self.began_ms

    @property
    def ratio(self) -> float | None:
        """The time in multiples of the bound; None if it did not complete or is too small to judge."""
        if self.state is not DeploymentState.COMPLETE:
            return None
        return times_the_bound(self.took_ms, self.bound_ms)

    @property
    def copies(self) -> float | None:
        """How many whole copies were read from the store."""
        return self.store_bytes / self.bytes if self.bytes else None


@dataclass(frozen=True, slots=True)
class Summary:
    name: str
    deployments: int
    complete: int
    failed: int
    median_ratio: float | None
    worst_ratio: float | None
    median_copies: float | None
    failures: int
    retries: int
    refused_bytes: int


def summarise(name: str, records: Sequence[Record]) -> Summary:
    ratios = [record.ratio for record in records if record.ratio is not None]
    copies = [
        record.copies
        for record in records
        if record.copies is not None and record.state is DeploymentState.COMPLETE
    ]
    states = [record.state for record in records]
    return Summary(
        name=name,
        deployments=len(records),
        complete=states.count(DeploymentState.COMPLETE),
        failed=states.count(DeploymentState.FAILED),
        median_ratio=median(ratios) if ratios else None,
        worst_ratio=max(ratios, default=None),
        median_copies=median(copies) if copies else None,
        failures=sum(record.failures for record in records),
        retries=sum(record.retries for record in records),
        refused_bytes=sum(record.refused_bytes for record in records),
    )


def by_model(records: Iterable[Record]) -> tuple[Summary, ...]:
    """Summaries by model, the most deployed first."""
    records_of: dict[str, list[Record]] = {}
    for record in records:
        records_of.setdefault(record.model, []).append(record)
    summaries = [summarise(model, of_it) for model, of_it in records_of.items()]
    return tuple(sorted(summaries, key=lambda one: (-one.deployments, one.name)))
