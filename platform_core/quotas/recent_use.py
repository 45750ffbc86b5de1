"""Recent use of teams, updated as time passes: for simulations, which have no ledger to sum up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from platform_core.quotas.fair_share import HALF_LIFE_MS, Use, decayed, faded
from platform_core.quotas.hierarchy import Hierarchy


@dataclass(frozen=True, slots=True)
class UseBefore:
    """The start of a simulation: the hierarchy, and the decayed use of each team until then."""

    at_ms: int
    hierarchy: Hierarchy
    used: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class _Account:
    used: float  # at that time
    at_ms: int
    held: int = 0  # slots, since then

    def at(self, now_ms: int, half_life_ms: int) -> _Account:
        if now_ms <= self.at_ms:
            return self
        since = decayed(Use("", self.held, self.at_ms, None), now_ms, half_life_ms)
        return replace(self, used=faded(self.used, now_ms - self.at_ms, half_life_ms) + since, at_ms=now_ms)


class RecentUse:
    """Gives at any time what `decayed_by_team` would compute from all uses until then."""

    def __init__(self, before: UseBefore, half_life_ms: int = HALF_LIFE_MS) -> None:
        self._hierarchy, self._half_life_ms = before.hierarchy, half_life_ms
        self._accounts = {
            team: _Account(before.used.get(team, 0.0), before.at_ms) for team in before.hierarchy.ways
        }

    def hold(self, team: str, slots: int, now_ms: int) -> None:
        """Change the slots a team holds. Teams outside the hierarchy are ignored."""
        account = self._accounts.get(team)
        if account is not None:
            account = account.at(now_ms, self._half_life_ms)
            self._accounts[team] = replace(account, held=account.held + slots)

    def used(self, now_ms: int) -> dict[str, float]:
        return {team: account.at(now_ms, self._half_life_ms).used for team, account in self._accounts.items()}

    def shares(self, now_ms: int) -> dict[str, float]:
        """For each team the share that the order of jobs uses."""
        return self._hierarchy.usage_shares(self.used(now_ms))
