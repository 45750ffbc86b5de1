"""A link is shared by weight; what one does not want the others have; caps and team caps hold."""

from __future__ import annotations

from math import inf, isclose

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.deployments.sharing import Share, Use, allot, shares


def test_deployments_share_by_their_weights() -> None:
    claims = {"a": Share(10), "b": Share(30)}
    assert shares(100, claims, {}) == {"a": 25, "b": 75}


def test_what_one_leaves_the_others_have() -> None:
    claims = {"a": Share(10), "b": Share(30), "c": Share(10)}
    assert shares(100, claims, {"b": 20}) == {"a": 40, "b": 20, "c": 40}
    assert shares(100, claims | {"b": Share(30, cap=20)}, {}) == {"a": 40, "b": 20, "c": 40}


def test_a_team_has_one_cap_for_all_its_deployments() -> None:
    claims = {
        "a": Share(10, team="vision", team_cap=30),
        "b": Share(20, team="vision", team_cap=30),
        "c": Share(10),
    }
    assert shares(100, claims, {}) == {"a": 10, "b": 20, "c": 70}


def test_without_any_bound_there_is_no_limit() -> None:
    assert shares(inf, {"a": Share(), "b": Share(cap=5)}, {}) == {"a": inf, "b": 5}
    assert shares(100, {}, {}) == {}


def test_equals_are_left_to_the_network_and_unequals_share_what_was_seen() -> None:
    equal = {"a": Use(Share(), 50), "b": Use(Share(), 50)}
    assert allot(equal, inf, 100) == {"a": inf, "b": inf}
    unequal = {"a": Use(Share(10), 50), "b": Use(Share(30), 50)}
    assert allot(unequal, inf, 100)["a"] < 40


@pytest.mark.parametrize("capacity", [100, inf])
def test_within_seconds_the_shares_are_as_the_weights(capacity: float) -> None:
    """A link of 100 on which each takes half, or what it may if that is less and the other all the rest."""
    uses = {"light": Use(Share(10), 50), "heavy": Use(Share(30), 50)}
    for _ in range(5):
        allowed = allot(uses, capacity, 100)
        light = min(50, allowed["light"])
        heavy = min(100 - light, allowed["heavy"])
        rates = {"light": light, "heavy": heavy}
        uses = {name: Use(use.share, rates[name], allowed[name]) for name, use in uses.items()}
    assert 2.4 < rates["heavy"] / rates["light"] < 3.4
    assert sum(rates.values()) > 95


def test_one_that_its_own_sources_hold_up_leaves_the_rest_to_the_other() -> None:
    uses = {"light": Use(Share(10), 90), "heavy": Use(Share(30), 10)}
    for _ in range(5):
        allowed = allot(uses, 100, 100)
        rates = {"light": min(90.0, allowed["light"]), "heavy": min(10.0, allowed["heavy"])}
        uses = {name: Use(use.share, rates[name], allowed[name]) for name, use in uses.items()}
    assert rates["heavy"] == 10
    assert rates["light"] > 80


BOUND = st.one_of(st.just(inf), st.integers(1, 1000).map(float))


@given(
    st.one_of(st.integers(1, 1000).map(float)),
    st.lists(
        st.tuples(st.integers(1, 100), BOUND, st.sampled_from(["", "vision", "nlp"]), BOUND),
        min_size=1,
        max_size=6,
    ),
    BOUND,
)
def test_no_bound_is_broken_and_nobody_could_get_more_but_from_one_that_has_less(
    capacity: float, asked: list[tuple[int, float, str, float]], team_cap: float
) -> None:
    claims = {
        f"d{n}": Share(w, cap, team, team_cap if team else inf) for n, (w, cap, team, _) in enumerate(asked)
    }
    wants = {f"d{n}": want for n, (*_, want) in enumerate(asked)}
    given_ = shares(capacity, claims, wants)

    def total(team: str | None = None) -> float:
        return sum(got for name, got in given_.items() if team is None or claims[name].team == team)

    assert total() <= capacity * (1 + 1e-9)
    for name, claim in claims.items():
        got, most = given_[name], min(claim.cap, wants[name])
        assert got <= most * (1 + 1e-9)
        if claim.team:
            assert total(claim.team) <= team_cap * (1 + 1e-9)
        if isclose(got, most):
            continue
        rivals = (
            given_
            if isclose(total(), capacity)
            else {n: g for n, g in given_.items() if claims[n].team == claim.team}
        )
        assert rivals is given_ or isclose(total(claim.team), team_cap), "something must be full"
        if rivals is given_ and claim.team and isclose(total(claim.team), team_cap):
            rivals = {n: g for n, g in given_.items() if claims[n].team == claim.team}
        assert all(g / claims[n].weight <= got / claim.weight * (1 + 1e-6) for n, g in rivals.items())
