"""Departments: what a weight among siblings comes to, who deserves what, and whose recent use counts against whom."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from platform_core.quotas.division import divided
from platform_core.quotas.fair_share import HIGHEST_SHARE, shares_of
from platform_core.quotas.hierarchy import INSIDE, TOP, Hierarchy, Sibling
from platform_core.quotas.shares import Claim, shares

DEPARTMENTS = ("d0", "d1", "d2", "d3")
USED = st.integers(0, 1_000).map(float)
Trees = tuple[dict[str, Sibling], dict[str, Sibling]]


@st.composite
def trees(draw: st.DrawFn, least_weight: int = 0) -> Trees:
    """Each department stands in an earlier one or at the top, so there is no circle."""
    weight = st.integers(least_weight, 9).map(float)
    departments = {
        name: Sibling(draw(weight), draw(st.sampled_from((TOP, *DEPARTMENTS[:place]))))
        for place, name in enumerate(DEPARTMENTS)
    }
    names = draw(st.lists(st.sampled_from("abcdefg"), unique=True, min_size=1))
    teams = {name: Sibling(draw(weight), draw(st.sampled_from((TOP, *DEPARTMENTS)))) for name in names}
    return departments, teams


def flat(weights: dict[str, float]) -> Hierarchy:
    return Hierarchy({}, {team: Sibling(weight) for team, weight in weights.items()})


RESEARCH = {"research": Sibling(3), "language": Sibling(1, "research"), "product": Sibling(1)}
TEAMS = {
    "vision": Sibling(1, "research"), "nlp": Sibling(2, "language"), "speech": Sibling(2, "language"),
    "search": Sibling(1, "product"),
}  # fmt: skip


def test_the_part_of_a_team_is_the_product_of_the_fractions_on_its_way() -> None:
    found = Hierarchy(RESEARCH, TEAMS).fractions()
    assert found == {"vision": 3 / 8, "nlp": 3 / 16, "speech": 3 / 16, "search": 1 / 4}


def test_a_department_without_teams_leaves_its_part_to_its_siblings() -> None:
    found = Hierarchy({**RESEARCH, "idle": Sibling(9)}, {"search": TEAMS["search"], "nlp": TEAMS["nlp"]})
    assert found.fractions() == {"search": 1 / 4, "nlp": 3 / 4}


def test_so_does_one_whose_teams_all_have_no_weight() -> None:
    teams = {"search": Sibling(1), "vision": Sibling(1, "research"), "nlp": Sibling(0, "language")}
    found = Hierarchy(RESEARCH, teams)
    assert found.fractions() == {"search": 1 / 4, "vision": 3 / 4, "nlp": 0.0}
    assert found.divided(8, {"search": 8, "vision": 8, "nlp": 8}) == {"search": 2, "vision": 6, "nlp": 0}


def test_a_department_within_itself_is_refused_with_the_circle() -> None:
    circle = {"a": Sibling(1, "b"), "b": Sibling(1, "a")}
    with pytest.raises(ValueError, match="a department cannot be within itself: a in b in a"):
        Hierarchy(circle, {"nlp": Sibling(1, "a")})


def test_a_department_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no department arts"):
        Hierarchy({}, {"nlp": Sibling(1, "arts")})


def test_a_team_and_a_department_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="nlp is a team and a department"):
        Hierarchy({"nlp": Sibling(1)}, {"nlp": Sibling(1)})


@given(st.dictionaries(st.sampled_from("abcdef"), st.tuples(st.integers(0, 9), USED, st.integers(0, 50))))
def test_without_departments_nothing_is_different(teams: dict[str, tuple[int, float, int]]) -> None:
    weights = {team: float(weight) for team, (weight, _, _) in teams.items()}
    used = {team: use for team, (_, use, _) in teams.items()}
    room = {team: slots for team, (_, _, slots) in teams.items()}
    assert flat(weights).weights() == weights
    assert flat(weights).usage_shares(used) == shares_of(used, weights)
    assert flat(weights).divided(64, room) == divided(64, weights, room)


@given(trees())
def test_the_parts_are_one_whole(tree: Trees) -> None:
    parts = Hierarchy(*tree).fractions()
    assert sum(parts.values()) == pytest.approx(1.0 if any(parts.values()) else 0.0)
    assert all(part >= 0.0 for part in parts.values())


@given(trees(), st.sampled_from((TOP, *DEPARTMENTS)), st.integers(0, 9))
def test_another_team_takes_from_the_others_and_gives_to_none(tree: Trees, where: str, weight: int) -> None:
    departments, teams = tree
    before = Hierarchy(departments, teams).fractions()
    after = Hierarchy(departments, {**teams, "newcomer": Sibling(weight, where)}).fractions()
    assume(any(before.values()))
    assert all(after[team] <= before[team] + 1e-12 for team in teams)


@given(trees(), st.integers(1, 9), st.data())
def test_more_weight_is_never_less_for_the_team_and_never_more_for_its_siblings(
    tree: Trees, more: int, data: st.DataObject
) -> None:
    departments, teams = tree
    team = data.draw(st.sampled_from(sorted(teams)))
    heavier = Sibling(teams[team].weight + more, teams[team].department)
    before = Hierarchy(departments, teams).fractions()
    after = Hierarchy(departments, {**teams, team: heavier}).fractions()
    assume(any(before.values()))
    assert after[team] >= before[team] - 1e-12
    assert all(after[other] <= before[other] + 1e-12 for other in teams if other != team)


@given(trees(least_weight=1), st.integers(0, 300), st.data())
def test_all_is_divided_that_has_room_and_none_gets_more_than_that(
    tree: Trees, total: int, data: st.DataObject
) -> None:
    room = {team: data.draw(st.integers(0, 60)) for team in tree[1]}
    given_to = Hierarchy(*tree).divided(total, room)
    assert sum(given_to.values()) == min(total, sum(room.values()))
    assert all(0 <= given_to[team] <= room[team] for team in room)


@given(trees(least_weight=1), st.integers(0, 300))
def test_where_all_have_room_each_gets_its_part_but_for_what_rounding_takes(tree: Trees, total: int) -> None:
    tried = Hierarchy(*tree)
    given_to = tried.divided(total, dict.fromkeys(tree[1], 1_000))
    for team, part in tried.fractions().items():
        assert abs(given_to[team] - total * part) <= len(tried.ways[team])


def test_what_a_team_cannot_hold_is_first_its_departments() -> None:
    room = {"vision": 40, "nlp": 1, "speech": 40, "search": 40}
    assert Hierarchy(RESEARCH, TEAMS).divided(32, room) == {"vision": 12, "nlp": 1, "speech": 11, "search": 8}


def test_a_team_deserves_its_guarantee_and_its_part_of_its_departments_part() -> None:
    claims = [Claim(team, 4, 100, each.weight, 0, each.department) for team, each in TEAMS.items()]
    found = {share.team: share.deserved for share in shares(48, claims, RESEARCH)}
    assert found == {"vision": 4 + 12, "nlp": 4 + 6, "speech": 4 + 6, "search": 4 + 8}


def test_a_team_that_used_nothing_bears_what_its_department_used_too_much() -> None:
    used = {"vision": 9.0, "nlp": 0.0, "speech": 0.0, "search": 1.0}
    found = Hierarchy(RESEARCH, TEAMS).usage_shares(used)
    assert found["search"] == pytest.approx(0.4)
    assert found["nlp"] == found["speech"] == pytest.approx(1.2)
    assert found["vision"] == pytest.approx(1.2 + 0.25)  # twice its part within: 1 beyond it counts a quarter


def test_what_one_team_left_idle_is_hardly_held_against_its_department() -> None:
    """Research used its part, all of it by vision; flat, vision would be at twice its share."""
    found = Hierarchy(RESEARCH, TEAMS).usage_shares({"vision": 3.0, "nlp": 0.0, "speech": 0.0, "search": 1.0})
    assert (found["search"], found["nlp"], found["vision"]) == (1.0, 1.0, 1.25)


@given(trees(least_weight=1), st.data())
def test_half_a_share_between_departments_outweighs_whatever_is_inside(
    tree: Trees, data: st.DataObject
) -> None:
    used = {team: data.draw(USED) for team in tree[1]}
    tried = Hierarchy(*tree)
    among, counted = tried.shares_among_siblings(used), tried.usage_shares(used)
    for one, ways in tried.ways.items():
        for other, others in tried.ways.items():
            if among[ways[0]] >= max(1.0, among[others[0]]) + INSIDE:
                assert counted[one] > counted[other]


@given(trees(least_weight=1), st.data())
def test_nobody_stands_better_than_its_department_and_siblings_stand_by_their_use(
    tree: Trees, data: st.DataObject
) -> None:
    used = {team: data.draw(USED) for team in tree[1]}
    tried = Hierarchy(*tree)
    among, counted = tried.shares_among_siblings(used), tried.usage_shares(used)
    assert all(counted[team] >= among[names[0]] for team, names in tried.ways.items())
    for names in tried.within.values():
        siblings = sorted((name for name in names if name in used), key=lambda name: among[name])
        assert all(counted[one] <= counted[next_one] for one, next_one in pairwise(siblings))


@given(trees(least_weight=1), st.data(), st.integers(1, 1_000))
def test_who_uses_more_never_stands_better_for_it(tree: Trees, data: st.DataObject, more: int) -> None:
    used = {team: data.draw(USED) for team in tree[1]}
    team = data.draw(st.sampled_from(sorted(used)))
    tried = Hierarchy(*tree)
    before, after = tried.usage_shares(used), tried.usage_shares({**used, team: used[team] + more})
    assert after[team] >= before[team] - 1e-9
    assert all(share < HIGHEST_SHARE + INSIDE for share in after.values())
