"""What each team may still start in this round: held and just placed, never more than its maximum."""

from __future__ import annotations

from collections.abc import Iterable

from platform_core.cluster.snapshot import TeamShare


class QuotaLedger:
    def __init__(self, teams: Iterable[TeamShare]) -> None:
        self._maximum: dict[tuple[str, str], int] = {}
        self._held: dict[tuple[str, str], int] = {}
        for share in teams:
            self._maximum[(share.team, share.gpu_type)] = share.maximum
            self._held[(share.team, share.gpu_type)] = share.used

    def held(self, team: str, gpu_type: str) -> int:
        return self._held.get((team, gpu_type), 0)

    def maximum(self, team: str, gpu_type: str) -> int | None:
        """None when nobody gave the team a quota for this type; it may then start nothing."""
        return self._maximum.get((team, gpu_type))

    def allows(self, team: str, gpu_type: str, gpus: int) -> bool:
        return self.held(team, gpu_type) + gpus <= self._maximum.get((team, gpu_type), 0)

    def take(self, team: str, gpu_type: str, gpus: int) -> None:
        self._held[(team, gpu_type)] = self.held(team, gpu_type) + gpus
