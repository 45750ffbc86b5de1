"""What each team may still start in this round: held and just placed, never more than its maximum."""

from __future__ import annotations

from collections.abc import Iterable

from platform_core.cluster.snapshot import TeamShare


class QuotaLedger:
    def __init__(self, teams: Iterable[TeamShare]) -> None:
        self._maximum: dict[tuple[str, str], int] = {}
        self._guaranteed: dict[tuple[str, str], int] = {}
        self._held: dict[tuple[str, str], int] = {}
        for share in teams:
            self._maximum[(share.team, share.gpu_type)] = share.maximum
            self._guaranteed[(share.team, share.gpu_type)] = share.guaranteed
            self._held[(share.team, share.gpu_type)] = share.used
        self.promises_anything = any(self._guaranteed.values())

    def held(self, team: str, gpu_type: str) -> int:
        return self._held.get((team, gpu_type), 0)

    def maximum(self, team: str, gpu_type: str) -> int | None:
        """None when nobody gave the team a quota for this type; it may then start nothing."""
        return self._maximum.get((team, gpu_type))

    def allows(self, team: str, gpu_type: str, gpus: int) -> bool:
        return self.held(team, gpu_type) + gpus <= self._maximum.get((team, gpu_type), 0)

    def guaranteed(self, team: str, gpu_type: str) -> int:
        return self._guaranteed.get((team, gpu_type), 0)

    def guarantees(self, team: str, gpu_type: str, gpus: int) -> bool:
        """Whether so many more are within the team's own."""
        return self.held(team, gpu_type) + gpus <= self.guaranteed(team, gpu_type)

    def take(self, team: str, gpu_type: str, gpus: int) -> None:
        self._held[(team, gpu_type)] = self.held(team, gpu_type) + gpus
