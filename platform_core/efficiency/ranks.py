"""What the ranks of a run report of themselves, where its time goes, and which of them hold up the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

_NAME = re.compile(r"ranks/(\d{1,9})/(\w+)")
SLOWER = 1.1  # times the median: a rank that holds up the others


@dataclass(frozen=True, slots=True)
class Rank:
    """Means over the run. Shares are parts of its wall time; None: not measured."""

    rank: int
    step_seconds: float
    data: float = 0.0
    evaluation: float = 0.0
    checkpoint: float = 0.0
    communication: float | None = None
    mfu: float | None = None
    flops_per_second: float | None = None
    samples_per_second: float | None = None
    tokens_per_second: float | None = None
    memory_bytes: float | None = None
    precision_bits: float | None = None
    idle: float | None = None  # of its GPU, in a profile
    synchronising: float | None = None  # waiting for its GPU, in a profile
    kernel_us: float | None = None  # mean of a profile

    @property
    def own_seconds(self) -> float:
        """Of a step, without waiting in collectives: there the ranks differ, and the step of all is as long."""
        return self.step_seconds * (1 - min(1.0, self.communication or 0.0))


def ranks_of(means: Mapping[str, float]) -> tuple[Rank, ...]:
    """By the names of their series, such as `ranks/3/step_seconds`; a rank without steps is left out."""
    found: dict[int, dict[str, float]] = {}
    for key, value in means.items():
        if match := _NAME.fullmatch(key):
            found.setdefault(int(match[1]), {})[match[2].removesuffix("_share")] = value
    names = Rank.__dataclass_fields__.keys() - {"rank"}
    return tuple(
        Rank(rank, **{name: value for name, value in values.items() if name in names})
        for rank, values in sorted(found.items())
        if "step_seconds" in values
    )


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Parts of the wall time of a run, which add up to 1. `compute` is what is left of the others."""

    compute: float
    data: float
    communication: float | None  # None: not measured, and a part of `compute`
    checkpoint: float
    evaluation: float


def breakdown(ranks: Sequence[Rank]) -> Breakdown | None:
    """The mean of the ranks."""
    if not ranks:
        return None
    measured = [rank.communication for rank in ranks if rank.communication is not None]
    parts = {
        name: _mean(getattr(rank, name) for rank in ranks) for name in ("data", "checkpoint", "evaluation")
    }
    communication = _mean(measured) if measured else None
    others = sum(parts.values()) + (communication or 0.0)
    scale = 1 / max(1.0, others)
    return Breakdown(
        compute=max(0.0, 1 - others),
        communication=None if communication is None else communication * scale,
        **{name: share * scale for name, share in parts.items()},
    )


@dataclass(frozen=True, slots=True)
class Straggler:
    rank: int
    node: str  # "" where it is not known
    times: float  # its own time of a step over the median


def stragglers(ranks: Sequence[Rank], nodes: Mapping[int, str] | None = None) -> tuple[Straggler, ...]:
    """The slowest first. With two ranks the slower one is held against the other."""
    if len(ranks) < 2:
        return ()
    middle = (
        median([rank.own_seconds for rank in ranks]) if len(ranks) > 2 else min(r.own_seconds for r in ranks)
    )
    if middle <= 0:
        return ()
    slow = [
        Straggler(rank.rank, (nodes or {}).get(rank.rank, ""), rank.own_seconds / middle)
        for rank in ranks
        if rank.own_seconds > SLOWER * middle
    ]
    return tuple(sorted(slow, key=lambda straggler: (-straggler.times, straggler.rank)))


def slow_nodes(found: Iterable[Straggler], ranks_by_node: Mapping[str, int]) -> tuple[str, ...]:
    """Nodes all of whose ranks hold up the others: the node is slow, not its share of the work."""
    count: dict[str, int] = {}
    for straggler in found:
        count[straggler.node] = count.get(straggler.node, 0) + 1
    return tuple(sorted(node for node, slow in count.items() if node and slow == ranks_by_node.get(node)))


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
