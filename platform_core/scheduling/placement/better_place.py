"""Whether a job takes the best free place or waits for a better one, by what a training step takes on each.

It waits only if it ends earlier that way, by the expected ends of the jobs that hold the better place: the wait is
shorter than the time it would lose over its remaining run. All its waits of this kind together stay below that loss
and below the limit of the policy, even where every expectation fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from platform_core.cluster.snapshot import PendingJob, PlaceStep
from platform_core.scheduling.estimates import remaining_ms

NOTICED = 0.005  # of a step: less is no reason to prefer a place
MOST_SLOWER = (
    1.5  # on more nodes than it needs, a job starts only if a step takes at most so many times as long
)


class Offer(NamedTuple):
    """A place by its step time, and when it is free."""

    step: PlaceStep
    start_ms: int


@dataclass(frozen=True, slots=True)
class LeftPlace:
    """A free place that a job leaves for a later one."""

    now: Offer
    later: Offer
    lost_ms: int  # over its remaining run, if it took the free place
    since_ms: int
    until_ms: int  # from then on it takes what is free


def left_to_run_ms(job: PendingJob) -> int:
    """On the fastest place: by its estimate or limit, or by the planner, whichever is less."""
    known_ms = remaining_ms(job)
    if not job.planned_ms:
        return known_ms
    return min(known_ms, max(0, job.planned_ms - job.attained_gpu_ms // job.num_gpus))


def acceptable(steps: Iterable[PlaceStep]) -> tuple[PlaceStep, ...]:
    """The places worth a look, the fastest first. All of those on the fewest nodes are among them."""
    steps = tuple(steps)
    fewest, fastest_us = min(step.nodes for step in steps), min(step.step_us for step in steps)
    return tuple(
        step
        for step in sorted(steps, key=lambda step: (step.step_us, step.nodes, step.racks))
        if step.nodes == fewest or step.step_us <= MOST_SLOWER * fastest_us
    )


def better_than(step: PlaceStep, steps: Iterable[PlaceStep]) -> tuple[PlaceStep, ...]:
    return tuple(other for other in steps if other.step_us < step.step_us * (1 - NOTICED))


def most_wait_ms(
    now: PlaceStep, better: PlaceStep, fastest_us: int, left_ms: int, limit_ms: int
) -> tuple[int, int]:
    """How long it may wait in all for the better of two places, and what it loses without."""
    lost_ms = left_ms * (now.step_us - better.step_us) // fastest_us
    return min(lost_ms, limit_ms), lost_ms


def left_for(
    now: Offer, later: Iterable[Offer], *, fastest_us: int, left_ms: int, offered_ms: int, limit_ms: int
) -> LeftPlace | None:
    """The later place with which the job ends first, or None if it takes the free one.

    `left_ms`: see `left_to_run_ms`; `offered_ms`: since when it has left places, 0 if it has not.
    """
    since_ms = offered_ms or now.start_ms
    best: LeftPlace | None = None
    for offer in later:
        most_ms, lost_ms = most_wait_ms(now.step, offer.step, fastest_us, left_ms, limit_ms)
        if offer.start_ms - since_ms > most_ms or offer.start_ms - now.start_ms >= lost_ms:
            continue
        found = LeftPlace(now, offer, lost_ms, since_ms, since_ms + most_ms)
        if best is None or _gain_ms(found) > _gain_ms(best):
            best = found
    return best


def _gain_ms(left: LeftPlace) -> int:
    return left.lost_ms - (left.later.start_ms - left.now.start_ms)


def place_cost_clause(steps: Sequence[PlaceStep], nodes: int, racks: int) -> str:
    """What such a place loses against the fastest of them; '' where that is not known, or where it is that one."""
    step = next((each for each in steps if each.nodes == nodes and racks <= each.racks), None)
    if step is None or (step.nodes, step.racks) == (steps[0].nodes, steps[0].racks):
        return ""
    lost = step.step_us / steps[0].step_us - 1
    if lost < NOTICED:
        return f"; by the planner a step takes as long as {place_words(steps[0])}"
    return f"; by the planner a step takes {100 * lost:.0f} % longer than {place_words(steps[0])}"


def place_words(step: PlaceStep) -> str:
    """'on 1 node', 'on 4 nodes in one rack', 'on 8 nodes in 2 racks'."""
    if step.nodes == 1:
        return "on 1 node"
    if step.racks >= step.nodes:
        return f"on {step.nodes} nodes"
    where = "one rack" if step.racks == 1 else f"{step.racks} racks"
    return f"on {step.nodes} nodes in {where}"
