"""What the ranks of a run report of themselves, where its time goes, and which of them hold up the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from platform_core.efficiency.mfu import Missing, believable

# Of a profile: the newest value counts, not the mean of several.
OF_A_PROFILE = ("communication_share", "profile", "idle_share", "synchronising_share", "kernel_us")
_NAME = re.compile(r"ranks/(\d{1,9})/(\w+)")
SLOWER = 1.1  # times the median: a rank that holds up the others
LEAST_OWN = 0.1  # of a step: less own time than that is within the error of a profile
UNLIKE = 0.1  # between the shares of two ranks, beyond which their mean hides something


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
    flops_missing: float | None = None  # why there is no MFU, by platform_core.efficiency.mfu.Missing
    profile: float | None = None  # the order by which it was profiled last

    @property
    def own_seconds(self) -> float | None:
        """Of a step, without waiting in collectives: there the ranks differ, and the step of all is as long. None where
        no profile has measured the waiting."""
        return None if self.communication is None else self.step_seconds * (1 - min(1.0, self.communication))


def ranks_of(means: Mapping[str, float]) -> tuple[Rank, ...]:
    """By the names of their series, such as `ranks/3/step_seconds`; a rank without steps is left out."""
    found: dict[int, dict[str, float]] = {}
    for key, value in means.items():
        if match := _NAME.fullmatch(key):
            found.setdefault(int(match[1]), {})[match[2].removesuffix("_share")] = value
    names = Rank.__dataclass_fields__.keys() - {"rank"}
    return tuple(
        _checked(Rank(rank, **{name: value for name, value in values.items() if name in names}))
        for rank, values in sorted(found.items())
        if "step_seconds" in values
    )


def _checked(rank: Rank) -> Rank:
    """Without an MFU above what the hardware can do, whoever counted it."""
    if rank.mfu is None or believable(rank.mfu) is not None:
        return rank
    return replace(rank, mfu=None, flops_per_second=None, flops_missing=float(Missing.IMPOSSIBLE))


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Parts of the wall time of a run, which add up to 1. `compute` is what is left of the others."""

    compute: float
    data: float
    communication: float | None  # None: not measured, and a part of `compute`
    checkpoint: float
    evaluation: float
    differing: float = (
        0.0  # between the least and the greatest share of communication of the ranks it is a mean of
    )

    @property
    def is_mixed(self) -> bool:
        """Whether one rank waits where another computes, so that the mean is that of no rank."""
        return self.differing > UNLIKE


def breakdown(ranks: Sequence[Rank]) -> Breakdown | None:
    """The mean of the ranks."""
    if not ranks:
        return None
    of_ranks = measured_together(ranks) or tuple(rank for rank in ranks if rank.communication is not None)
    measured = [rank.communication or 0.0 for rank in of_ranks]
    parts = {
        name: _mean(getattr(rank, name) for rank in ranks) for name in ("data", "checkpoint", "evaluation")
    }
    communication = _mean(measured) if measured else None
    others = sum(parts.values()) + (communication or 0.0)
    scale = 1 / max(1.0, others)
    return Breakdown(
        compute=max(0.0, 1 - others),
        communication=None if communication is None else communication * scale,
        differing=max(measured) - min(measured) if measured else 0.0,
        **{name: share * scale for name, share in parts.items()},
    )


@dataclass(frozen=True, slots=True)
class Straggler:
    rank: int
    node: str  # "" where it is not known
    times: float  # its own time of a step over the median


def stragglers(ranks: Sequence[Rank], nodes: Mapping[int, str] | None = None) -> tuple[Straggler, ...]:
    """The slowest first, of the ranks that were profiled together. With two the slower one is held against the other.

    Ranks that no profile saw, or another one, are held against none of these: their waiting is not known."""
    own = {rank.rank: rank.own_seconds or 0.0 for rank in measured_together(ranks)}
    if (
        len(own) < 2
    ):  # their whole steps are alike where they wait for each other, and say something where they do not
        own = {rank.rank: rank.step_seconds for rank in ranks}
    if len(own) < 2:
        return ()
    usual = median(own.values()) if len(own) > 2 else min(own.values())
    step = max(rank.step_seconds for rank in ranks)
    usual = max(usual, LEAST_OWN * step)  # the ratio of two small remainders says nothing
    slow = [
        Straggler(rank, (nodes or {}).get(rank, ""), seconds / usual)
        for rank, seconds in own.items()
        if usual > 0 and seconds > SLOWER * usual
    ]
    return tuple(sorted(slow, key=lambda straggler: (-straggler.times, straggler.rank)))


def measured_together(ranks: Sequence[Rank]) -> tuple[Rank, ...]:
    """The ranks of the newest profile; none of one whose number nobody told."""
    profiled = [rank for rank in ranks if rank.communication is not None and rank.profile is not None]
    newest = max((rank.profile or 0.0 for rank in profiled), default=0.0)
    return tuple(rank for rank in profiled if rank.profile == newest)


def what_is_not_measured(ranks: Sequence[Rank]) -> str:
    """A sentence about communication and stragglers; "" where all ranks were profiled together."""
    together = len(measured_together(ranks))
    if len(ranks) < 2 or together == len(ranks):
        return ""
    if not together:
        return "Communication was not measured, so nobody knows which rank holds up the others; profile all ranks."
    measured = f"{together} of {len(ranks)} ranks"
    return (
        f"Communication was measured on {measured} together, and only these are compared; profile all ranks."
    )


def slow_nodes(found: Iterable[Straggler], ranks_by_node: Mapping[str, int]) -> tuple[str, ...]:
    """Nodes all of whose ranks hold up the others: the node is slow, not its share of the work."""
    count: dict[str, int] = {}
    for straggler in found:
        count[straggler.node] = count.get(straggler.node, 0) + 1
    return tuple(sorted(node for node, slow in count.items() if node and slow == ranks_by_node.get(node)))


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed)
