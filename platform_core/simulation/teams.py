"""The teams of a simulation: quotas, held and queued GPUs, recent use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from platform_core.cluster.snapshot import TeamShare
from platform_core.quotas.admission import Admitted, Request, admit
from platform_core.quotas.limits import Limits, Usage
from platform_core.quotas.recent_use import RecentUse, UseBefore


class Teams:
    """`shares` are of one GPU type; a team without one is refused at the door. Without `before` their use of late stays
    what they say, whatever happens."""

    def __init__(self, shares: Iterable[TeamShare], before: UseBefore | None = None) -> None:
        self._shares = {share.team: replace(share, used=0) for share in shares}
        self._recent = RecentUse(before) if before else None
        self.held = 0  # by all of them
        self._queued = Counter[str]()

    def shares(self, now_ms: int) -> tuple[TeamShare, ...]:
        if self._recent is None:
            return tuple(self._shares.values())
        lately = self._recent.shares(now_ms)
        return tuple(
            [
                replace(share, usage_share=lately.get(share.team, share.usage_share))
                for share in self._shares.values()
            ]
        )

    def admits(self, team: str, gpu_type: str, gpus: int) -> bool:
        share = self._shares.get(team)
        usage = Usage(share.used if share else 0, self._queued[team])
        limits = Limits(share.guaranteed, share.maximum) if share else None
        return isinstance(admit(Request(team, gpu_type, gpus), usage, limits), Admitted)

    def queue(self, team: str, gpus: int) -> None:
        """Change the number of queued GPUs."""
        self._queued[team] += gpus

    def use(self, team: str, slots: int, now_ms: int) -> None:
        """Change the number of held GPUs."""
        self.held += slots
        share = self._shares[team]
        self._shares[team] = replace(share, used=share.used + slots)
        if self._recent is not None:
            self._recent.hold(team, slots, now_ms)

    def wrong(self) -> Iterator[str]:
        for share in self._shares.values():
            if share.used > share.maximum:
                yield f"team {share.team} holds {share.used} slots, its maximum is {share.maximum}"
