"""Silent corruption: which rank computed something else than the others, and which checkpoints are from before that.

All ranks compute one micro-batch with the same weights. What most of them found is right. Two ranks that differ are
both suspected until a third result decides: of another rank, or of one of them that finds something else the second
time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isclose, isfinite, isnan

MILLION = 1_000_000
NEGLIGIBLE = 1_000  # a part of the values so many times smaller than the largest is measured against that


@dataclass(frozen=True, slots=True)
class Vote:
    """What a rank computed: a digest of the bytes, and sums over parts of the values for a comparison by tolerance."""

    rank: int
    digest: str
    sums: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`suspects` holds all that may be guilty where no majority decides. Ranks in ascending order."""

    guilty: tuple[int, ...] = ()
    suspects: tuple[int, ...] = ()
    unsteady: bool = False  # most ranks contradict themselves: the computation is not deterministic

    @property
    def agreed(self) -> bool:
        return not (self.guilty or self.suspects or self.unsteady)


def judge(votes: Sequence[Vote], tolerance_ppm: int = 0) -> Verdict:
    """The verdict on the ranks with these votes; a rank may have computed more than once."""
    first: dict[int, Vote] = {}
    contradicting: set[int] = set()
    for vote in votes:
        if not agree(first.setdefault(vote.rank, vote), vote, tolerance_ppm):
            contradicting.add(vote.rank)
    if 2 * len(contradicting) > len(first):
        return Verdict(unsteady=True)
    steady = [vote for rank, vote in sorted(first.items()) if rank not in contradicting]
    camps = [{other.rank for other in steady if agree(vote, other, tolerance_ppm)} for vote in steady]
    largest = max(camps, key=len, default=set())
    if 2 * len(largest) > len(steady):
        return Verdict(guilty=tuple(sorted(set(first) - largest)))
    return Verdict(guilty=tuple(sorted(contradicting)), suspects=tuple(vote.rank for vote in steady))


def agree(one: Vote, other: Vote, tolerance_ppm: int = 0) -> bool:
    if one.digest == other.digest:
        return True
    if not tolerance_ppm or len(one.sums) != len(other.sums):
        return False
    relative = tolerance_ppm / MILLION
    absolute = (
        relative
        * max((abs(value) for value in (*one.sums, *other.sums) if isfinite(value)), default=0.0)
        / NEGLIGIBLE
    )
    return all(
        (isnan(a) and isnan(b)) or isclose(a, b, rel_tol=relative, abs_tol=absolute)
        for a, b in zip(one.sums, other.sums, strict=True)
    )


@dataclass(frozen=True, slots=True)
class Agreement:
    """The newest step at which all ranks of an attempt agreed."""

    attempt: int
    step: int


def is_vouched_for(attempt: int, step: int, agreements: Iterable[Agreement]) -> bool:
    """Whether ranks agreed at or after this step of this attempt, or in a later attempt that got as far.

    An earlier attempt says nothing of the weights that this one computed.
    """
    return any(seen.attempt >= attempt and seen.step >= step for seen in agreements)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Nodes one of which computed something wrong."""

    at_ms: int
    nodes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Alibi:
    """Nodes whose ranks agreed, in an attempt that began then."""

    began_ms: int
    nodes: frozenset[str]


def convicted(suspicions: Sequence[Suspicion], alibis: Iterable[Alibi]) -> frozenset[str]:
    """Nodes that no other than they can explain: the only one that two suspicions share, or the only suspect that has
    not agreed with others since."""
    guilty: set[str] = set()
    known = list(alibis)
    for number, suspicion in enumerate(suspicions):
        left = set(suspicion.nodes)
        for alibi in known:
            with_others = len(alibi.nodes) > 1 and len(alibi.nodes & suspicion.nodes) == 1
            if alibi.began_ms > suspicion.at_ms and with_others:
                left -= alibi.nodes
        shares = [suspicion.nodes & other.nodes for other in suspicions[number + 1 :]]
        guilty.update(*(nodes for nodes in (left, *shares) if len(nodes) == 1))
    return frozenset(guilty)
