"""The checkpoint interval of a job: the actual one and its cost, beside the advised one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median_low

from platform_core.checkpointing import interval
from platform_core.units import DAY_MS, format_duration_ms

FEW_LOSSES = 3  # fewer losses say little about the failure rate
# After so long without a loss, one loss in that time serves as an upper bound.
LONG_WATCHED_MS = 30 * DAY_MS
_WORTH_A_CHANGE = 0.01  # of the time


@dataclass(frozen=True, slots=True)
class Save:
    """`begun_ms` and `saved_ms` on one clock, the script's; None: nobody told when it began."""

    attempt: int
    begun_ms: int | None
    saved_ms: int


@dataclass(frozen=True, slots=True)
class Habit:
    """Medians, so that a slow save or the last one before a stop counts little."""

    saves: int
    save_ms: int | None  # for which training stands still
    interval_ms: int | None  # of computing, between the end of one save and the start of the next


@dataclass(frozen=True, slots=True)
class Losses:
    """Losses of nodes of this GPU type: how many, in how much node time."""

    lost: int
    node_ms: int

    @property
    def watched(self) -> str:
        if self.node_ms < DAY_MS:
            return f"{format_duration_ms(self.node_ms)} of node time"
        return f"{self.node_ms / DAY_MS:,.1f} node-days"


@dataclass(frozen=True, slots=True)
class Cost:
    """The expected cost of a checkpoint interval, as parts of the wall time."""

    interval_ms: int
    saving: float
    lost: float | None  # work done again and restarts; None where nobody knows how often nodes are lost

    @property
    def total(self) -> float:
        return self.saving + (self.lost or 0.0)


@dataclass(frozen=True, slots=True)
class Review:
    """`floor`: no node was lost yet, so `advised` is the shortest interval that could pay."""

    habit: Habit
    nodes: int
    losses: Losses
    restart_ms: int
    gang_mtbf_ms: int | None
    now: Cost | None
    advised: Cost | None
    floor: bool
    sentence: str


def habit(saves: Iterable[Save]) -> Habit:
    known = sorted(saves, key=lambda save: (save.attempt, save.saved_ms))
    lasted = [max(1, save.saved_ms - save.begun_ms) for save in known if save.begun_ms is not None]
    save_ms = median_low(lasted) if lasted else None
    apart = [
        after.saved_ms - before.saved_ms
        for before, after in pairwise(known)
        if before.attempt == after.attempt and after.saved_ms > before.saved_ms
    ]
    usual_ms = max(1, median_low(apart) - (save_ms or 0)) if apart else None
    return Habit(len(known), save_ms, usual_ms)


def review(saves: Sequence[Save], nodes: int, gpu_type: str, losses: Losses, restart_ms: int) -> Review:
    """`nodes` of the gang; `restart_ms` from a new placement until it runs again."""
    usual = habit(saves)
    mtbf_ms = _gang_mtbf_ms(losses, nodes)
    floor = losses.lost == 0
    now = advised = None
    if usual.save_ms is not None:
        if usual.interval_ms is not None:
            # A floor of the time between losses would tell the most that could be lost, not what is expected.
            now = _cost(usual.interval_ms, usual.save_ms, None if floor else mtbf_ms, restart_ms)
        if mtbf_ms is not None:
            best_ms = interval.advise(usual.save_ms, mtbf_ms).interval_ms
            advised = _cost(best_ms, usual.save_ms, None if floor else mtbf_ms, restart_ms)
    sentence = _sentence(usual, gpu_type, losses, now, advised)
    return Review(
        usual, nodes, losses, restart_ms, mtbf_ms, now, advised, floor and advised is not None, sentence
    )


def _gang_mtbf_ms(losses: Losses, nodes: int) -> int | None:
    """The gang fails with any of its nodes."""
    if losses.lost == 0 and losses.node_ms < LONG_WATCHED_MS:
        return None
    return max(1, losses.node_ms // max(1, losses.lost) // max(1, nodes))


def _cost(interval_ms: int, save_ms: int, mtbf_ms: int | None, restart_ms: int) -> Cost:
    saving = save_ms / (interval_ms + save_ms)
    if mtbf_ms is None:
        return Cost(interval_ms, saving, None)
    return Cost(
        interval_ms, saving, max(0.0, interval.waste(interval_ms, save_ms, mtbf_ms, restart_ms) - saving)
    )


def _sentence(usual: Habit, gpu_type: str, losses: Losses, now: Cost | None, advised: Cost | None) -> str:
    if usual.save_ms is None:
        return "How long a save takes is not known yet: no save has told when it began."
    if advised is None:
        return (
            f"No node of {gpu_type} was lost in {losses.watched}: too short a time to tell how often that happens, "
            "and so how often it should save."
        )
    best = format_duration_ms(advised.interval_ms)
    if losses.lost == 0:
        none = f"No node of {gpu_type} was lost in {losses.watched}"
        none = f"{none}. Were one lost now, a save every {best} would be best"
        if now is not None and now.saving - advised.saving >= _WORTH_A_CHANGE:
            every = format_duration_ms(now.interval_ms)
            return f"{none}; it saves every {every}, more often than is worth it."
        return f"{none}, so more often than that is not worth it."
    few = f" This rests on {_times(losses.lost)} only." if losses.lost < FEW_LOSSES else ""
    if now is None:
        return f"A save every {best} would be best; how often it saves is seen from the second save on.{few}"
    every, gain = format_duration_ms(now.interval_ms), now.total - advised.total
    if gain < _WORTH_A_CHANGE:
        return f"It saves every {every}; a save every {best} would be best, but is hardly better.{few}"
    return (
        f"A save every {best} instead of every {every} would give it back {percent(gain)} of its time.{few}"
    )


def percent(part: float) -> str:
    return "under 0.1 %" if 0 < part < 0.0005 else f"{100 * part:.1f} %"


def _times(lost: int) -> str:
    return "one lost node" if lost == 1 else f"{lost} lost nodes"
