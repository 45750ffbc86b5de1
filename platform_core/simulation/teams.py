"""What the teams of a history may hold, hold, and wait for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from platform_core.cluster.snapshot import TeamShare
from platform_core.quotas.admission import Admitted, Request, admit
from platform_core.quotas.limits import Limits, Usage


class Teams:
    """`shares` are of one GPU type; a team without one is refused at the door."""

    def __init__(self, shares: Iterable[TeamShare]) -> None:
        self.shares = {share.team: replace(share, used=0) for share in shares}
        self.held = 0  # by all of them
        self._queued = Counter[str]()

    def admits(self, team: str, gpu_type: str, gpus: int) -> bool:
        share = self.shares.get(team)
        usage = Usage(share.used if share else 0, self._queued[team])
        limits = Limits(share.guaranteed, share.maximum) if share else None
        return isinstance(admit(Request(team, gpu_type, gpus), usage, limits), Admitted)

    def queue(self, team: str, gpus: int) -> None:
        """So many more wait, or fewer."""
        self._queued[team] += gpus

    def use(self, team: str, slots: int) -> None:
        """It holds so many more, or fewer."""
        self.held += slots
        share = self.shares[team]
        self.shares[team] = replace(share, used=share.used + slots)

    def wrong(self) -> Iterator[str]:
        for share in self.shares.values():
            if share.used > share.maximum:
                yield f"team {share.team} holds {share.used} slots, its maximum is {share.maximum}"
