"""A stop that was planned: the time that is nobody's fault, from the end of a part until the platform works again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from platform_core.units import MINUTE_MS

LEAST_MS = (
    2 * MINUTE_MS
)  # what ends next to it is not missed at once, so the first good probe may come too early
STARTUP_MS = 3 * MINUTE_MS  # from the first probe after it; what does not work by then is an outage
QUIET_MS = 10 * MINUTE_MS  # nobody is told of the silence of a part that was stopped; longer is worth a word


@dataclass(frozen=True, slots=True)
class Stop:
    at_ms: int
    back_ms: int | None = None  # the first probe after it
    over_ms: int | None = None


def probed(stop: Stop, at_ms: int, works: bool) -> Stop:
    """The stop after a probe. While nothing probes it goes on: the platform is down, as it was meant to be."""
    if stop.over_ms is not None or at_ms < stop.at_ms:
        return stop
    seen = stop if stop.back_ms is not None else replace(stop, back_ms=at_ms)
    assert seen.back_ms is not None
    if works and at_ms - stop.at_ms >= LEAST_MS:
        return replace(seen, over_ms=at_ms)
    if at_ms - max(seen.back_ms, stop.at_ms + LEAST_MS) >= STARTUP_MS:
        return replace(seen, over_ms=max(seen.back_ms, stop.at_ms + LEAST_MS) + STARTUP_MS)
    return seen


def is_quiet(stop: Stop, at_ms: int) -> bool:
    """Whether its part may still be silent without an alert."""
    return stop.over_ms is None and 0 <= at_ms - stop.at_ms < QUIET_MS


def outside(from_ms: int, to_ms: int, stops: Iterable[Stop]) -> Sequence[tuple[int, int]]:
    """The parts of a period that are not in a stop, by whole minutes; a stop that goes on lasts to its end."""
    parts, begin = [], from_ms
    for stop in sorted(stops, key=lambda stop: stop.at_ms):
        first = stop.at_ms - stop.at_ms % MINUTE_MS
        last = to_ms if stop.over_ms is None else stop.over_ms - stop.over_ms % MINUTE_MS + MINUTE_MS
        if begin < min(first, to_ms):
            parts.append((begin, min(first, to_ms)))
        begin = max(begin, last)
    if begin < to_ms:
        parts.append((begin, to_ms))
    return parts
