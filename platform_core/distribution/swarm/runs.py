"""The held pieces of a lane as runs: a node that receives in order is described by two numbers."""

from __future__ import annotations

from collections.abc import Iterable

Run = tuple[int, int]  # from the first to before the second
Runs = tuple[Run, ...]  # ascending, apart from each other, none empty


def joined(runs: Iterable[Run]) -> Runs:
    """The same pieces as few runs as possible."""
    merged: list[Run] = []
    for first, end in sorted(runs):
        if first >= end:
            continue
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((first, end))
    return tuple(merged)


def missing(runs: Runs, length: int) -> Runs:
    """What lacks of the lane."""
    gaps, at = [], 0
    for first, end in runs:
        if at < first:
            gaps.append((at, first))
        at = end
    if at < length:
        gaps.append((at, length))
    return tuple(gaps)


def run_at(runs: Runs, piece: int) -> Run | None:
    """The run that contains the piece."""
    return next((run for run in reversed(runs) if run[0] <= piece < run[1]), None)


def frontier(runs: Runs) -> int:
    """Before this piece the newest run ends; what grows is the newest run."""
    return runs[-1][1] if runs else 0


def count(runs: Runs) -> int:
    """How many pieces they are."""
    return sum(end - first for first, end in runs)
