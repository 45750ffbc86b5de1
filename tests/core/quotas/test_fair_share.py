from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.quotas.fair_share import HALF_LIFE_MS, HIGHEST_SHARE, Use, decayed, usage_shares

DAY_MS = 86_400_000
NOW_MS = 100 * DAY_MS
USES = st.lists(
    st.builds(
        Use,
        st.sampled_from(["nlp", "vision", "robotics"]),
        st.integers(1, 64),
        st.integers(0, NOW_MS - 1_000),
        st.none() | st.just(NOW_MS - 500),
    ),
    max_size=12,
)


def test_use_counts_half_after_a_half_life():
    new = decayed(Use("nlp", 4, NOW_MS - DAY_MS, NOW_MS), NOW_MS)
    old = decayed(Use("nlp", 4, NOW_MS - HALF_LIFE_MS - DAY_MS, NOW_MS - HALF_LIFE_MS), NOW_MS)
    assert old == pytest.approx(new / 2)


def test_use_of_a_moment_ago_counts_as_itself():
    assert decayed(Use("nlp", 4, NOW_MS - 1_000, None), NOW_MS) == pytest.approx(4_000)


def test_use_after_the_moment_asked_about_does_not_count():
    assert decayed(Use("nlp", 4, NOW_MS - 1_000, NOW_MS + DAY_MS), NOW_MS) == pytest.approx(4_000)


def test_use_that_begins_later_counts_nothing():
    assert decayed(Use("nlp", 4, NOW_MS + 1, None), NOW_MS) == 0.0


@given(st.integers(0, NOW_MS), st.integers(0, NOW_MS), st.integers(0, NOW_MS))
def test_a_holding_counts_as_much_as_its_two_parts(one: int, other: int, third: int):
    start, middle, end = sorted((one, other, third))
    parts = decayed(Use("nlp", 2, start, middle), NOW_MS) + decayed(Use("nlp", 2, middle, end), NOW_MS)
    assert parts == pytest.approx(decayed(Use("nlp", 2, start, end), NOW_MS), rel=1e-9, abs=1e-3)


def test_equal_use_by_equal_teams_is_exactly_their_share():
    uses = [Use(team, 4, NOW_MS - DAY_MS, None) for team in ("nlp", "vision")]
    assert usage_shares(uses, {"nlp": 8, "vision": 8}, NOW_MS) == {"nlp": 1.0, "vision": 1.0}


def test_a_team_that_deserves_more_has_a_smaller_share_of_the_same_use():
    uses = [Use(team, 4, NOW_MS - DAY_MS, None) for team in ("nlp", "vision")]
    shares = usage_shares(uses, {"nlp": 12, "vision": 4}, NOW_MS)
    assert (shares["nlp"], shares["vision"]) == (pytest.approx(2 / 3), pytest.approx(2.0))


def test_nobody_has_used_anything():
    assert usage_shares([], {"nlp": 1, "vision": 0}, NOW_MS) == {"nlp": 0.0, "vision": 0.0}


def test_a_team_without_weight_that_uses_something_is_far_over_its_share():
    assert usage_shares([Use("nlp", 1, 0, None)], {"nlp": 0, "vision": 4}, NOW_MS)["nlp"] == HIGHEST_SHARE


@given(USES)
def test_shares_weighted_by_what_is_deserved_add_up_to_one(uses: list[Use]):
    weights = {"nlp": 8.0, "vision": 4.0, "robotics": 4.0}
    shares = usage_shares(uses, weights, NOW_MS)
    total = sum(shares[team] * weight for team, weight in weights.items()) / sum(weights.values())
    assert total == pytest.approx(1.0 if uses else 0.0)
