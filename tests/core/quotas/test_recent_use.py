"""Use of late, kept up from moment to moment: it must be what a sum over the whole ledger would give."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.quotas.fair_share import HALF_LIFE_MS, Use, decayed, decayed_by_team, faded
from platform_core.quotas.hierarchy import Hierarchy, Sibling
from platform_core.quotas.recent_use import RecentUse, UseBefore
from platform_core.units import DAY_MS, HOUR_MS

FLAT = Hierarchy({}, {"a": Sibling(1.0), "b": Sibling(3.0)})
NOW_MS = 100 * DAY_MS

uses = st.builds(
    lambda team, slots, begin, length: Use(team, slots, begin, begin + length),
    st.sampled_from("ab"), st.integers(1, 64), st.integers(0, 30 * DAY_MS), st.integers(1, 20 * DAY_MS),
)  # fmt: skip


@given(
    ledger=st.lists(uses, max_size=12), begin_ms=st.integers(0, 40 * DAY_MS), later_ms=st.integers(0, DAY_MS)
)
def test_from_any_moment_on_it_is_what_the_whole_ledger_sums_up_to(
    ledger: list[Use], begin_ms: int, later_ms: int
) -> None:
    before = [use for use in ledger if use.started_ms < begin_ms]
    recent = RecentUse(UseBefore(begin_ms, FLAT, decayed_by_team(before, "ab", begin_ms)))
    happens: list[tuple[int, str, int]] = []
    for use in ledger:
        ended_ms = use.ended_ms or 0
        if ended_ms > begin_ms:
            happens += [
                (max(use.started_ms, begin_ms), use.team, use.slots),
                (ended_ms, use.team, -use.slots),
            ]
    for at_ms, team, slots in sorted(happens):
        recent.hold(team, slots, at_ms)
    end_ms = max([begin_ms, *[at_ms for at_ms, _, _ in happens]]) + later_ms
    summed = decayed_by_team(ledger, "ab", end_ms)
    told = recent.used(end_ms)
    assert all(math.isclose(told[team], summed[team], rel_tol=1e-9, abs_tol=1e-3) for team in "ab")
    assert recent.shares(end_ms) == FLAT.usage_shares(told)


def test_looking_changes_nothing() -> None:
    recent, looked_at = (RecentUse(UseBefore(0, FLAT, {"a": 1e9})) for _ in range(2))
    for each in (recent, looked_at):
        each.hold("b", 4, HOUR_MS)
    for hour in range(2, 9):
        looked_at.shares(hour * HOUR_MS)
    assert recent.used(9 * HOUR_MS) == looked_at.used(9 * HOUR_MS)


def test_half_is_forgotten_in_a_half_life_and_what_is_held_counts_at_once() -> None:
    recent = RecentUse(UseBefore(NOW_MS, FLAT, {"a": 1000.0}))
    assert recent.used(NOW_MS + HALF_LIFE_MS)["a"] == pytest.approx(500.0)
    recent.hold("b", 2, NOW_MS)
    held = decayed(Use("b", 2, NOW_MS, None), NOW_MS + HOUR_MS)
    assert recent.used(NOW_MS + HOUR_MS)["b"] == pytest.approx(held)
    assert faded(8.0, 3 * HALF_LIFE_MS) == 1.0


def test_who_does_not_share_is_not_counted() -> None:
    recent = RecentUse(UseBefore(0, FLAT, {"stranger": 5.0}))
    recent.hold("stranger", 8, 0)
    assert recent.used(HOUR_MS) == {"a": 0.0, "b": 0.0}
