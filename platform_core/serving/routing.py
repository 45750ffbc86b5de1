"""Which replica answers a request: by outstanding requests, a key of the caller, and what failed lately."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

FAILURES_TO_OPEN = 5
FIRST_PAUSE_MS, LONGEST_PAUSE_MS = 1_000, 30_000
CROWDED = 2  # times the least outstanding, plus two: then affinity gives way
SHARES = 10_000


@dataclass(frozen=True, slots=True)
class Circuit:
    """Failures in a row open it for a time that doubles; then one request tries the replica again."""

    failures: int = 0
    opened: int = 0  # how often in a row
    open_until_ms: int = 0

    def lets(self, now_ms: int) -> bool:
        return now_ms >= self.open_until_ms

    def succeeded(self) -> Circuit:
        return Circuit()

    def failed(self, now_ms: int) -> Circuit:
        failures = self.failures + 1
        if failures < FAILURES_TO_OPEN and not self.opened:
            return replace(self, failures=failures)
        pause = min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS << min(self.opened, 10))
        return Circuit(failures, self.opened + 1, now_ms + pause)


@dataclass(frozen=True, slots=True)
class Target:
    id: str
    outstanding: int
    circuit: Circuit = Circuit()


def choose(
    targets: Sequence[Target],
    draws: tuple[float, float],
    *,
    now_ms: int,
    key: str = "",
    tried: Collection[str] = (),
) -> Target | None:
    """Of two replicas drawn by chance the less busy one; with a key the same replica again, unless it is crowded.

    `draws` are two numbers of [0, 1). Replicas in `tried` are left out, and those whose circuit is open, unless no
    other is left: then any of them may try, for a closed door answers nobody. None: every replica was tried.
    """
    untried = sorted((target for target in targets if target.id not in tried), key=lambda target: target.id)
    candidates = [target for target in untried if target.circuit.lets(now_ms)] or untried
    if not candidates:
        return None
    if key:
        least = min(target.outstanding for target in candidates)
        uncrowded = [one for one in candidates if one.outstanding <= CROWDED * least + 2]
        return max(uncrowded, key=lambda target: _digest(f"{key}\0{target.id}"))
    first = int(draws[0] * len(candidates))
    if len(candidates) == 1:
        return candidates[0]
    second = int(draws[1] * (len(candidates) - 1))
    pair = candidates[first], candidates[second + (second >= first)]
    return min(pair, key=lambda target: target.outstanding)


def to_canary(share: int, draw: float, key: str = "") -> bool:
    """Whether a request belongs to the canary's `share`, in ten-thousandths. A key always gives the same answer, and
    a greater share only adds keys."""
    place = _digest(key) % SHARES if key else int(draw * SHARES)
    return place < share


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
