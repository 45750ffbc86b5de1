"""What each team deserves, borrows and lends."""

from hypothesis import given
from hypothesis import strategies as st

from platform_core.quotas.division import divided
from platform_core.quotas.shares import Claim, shares


def claim(team: str, guaranteed: int, maximum: int, held: int = 0, weight: float = 1) -> Claim:
    return Claim(team, guaranteed, maximum, weight, held)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[int, list[Claim]]:
    names = draw(st.lists(st.sampled_from("abcdefg"), unique=True))
    claims = []
    for name in names:
        guaranteed = draw(st.integers(0, 40))
        maximum = guaranteed + draw(st.integers(0, 40))
        held = draw(st.integers(0, maximum))
        claims.append(claim(name, guaranteed, maximum, held, draw(st.integers(0, 9))))
    return draw(st.integers(0, 200)), claims


def test_what_nobody_is_guaranteed_is_divided_by_weight() -> None:
    vision, nlp = shares(32, [claim("vision", 8, 32, weight=3), claim("nlp", 8, 32)])
    assert (vision.deserved, nlp.deserved) == (8 + 12, 8 + 4)


def test_what_one_may_not_hold_goes_to_the_others() -> None:
    vision, nlp = shares(32, [claim("vision", 8, 10, weight=3), claim("nlp", 8, 32)])
    assert (vision.deserved, nlp.deserved) == (10, 22)


def test_guarantees_give_way_in_proportion_when_nodes_are_away() -> None:
    vision, nlp = shares(12, [claim("vision", 16, 32), claim("nlp", 8, 32)])
    assert (vision.deserved, nlp.deserved) == (8, 4)


def test_borrowers_take_first_what_nobody_is_guaranteed() -> None:
    vision, nlp, idle = shares(
        32, [claim("vision", 8, 32, held=14), claim("nlp", 8, 16, held=8), claim("idle", 8, 8)]
    )
    assert (vision.borrowed, vision.lent) == (6, 0)
    assert (nlp.borrowed, nlp.lent) == (0, 0)
    assert idle.lent == 0  # 8 of the 32 are guaranteed to nobody, and only 6 are borrowed


def test_who_leaves_its_guarantee_lends_what_is_borrowed_beyond_that() -> None:
    vision, _, idle = shares(
        32, [claim("vision", 8, 32, held=20), claim("nlp", 8, 16, held=8), claim("idle", 8, 8, held=2)]
    )
    assert (vision.borrowed, idle.lent) == (12, 4)


@given(clusters())
def test_everybody_deserves_between_guarantee_and_maximum_and_all_together_no_more_than_there_is(
    cluster: tuple[int, list[Claim]],
) -> None:
    capacity, claims = cluster
    found = shares(capacity, claims)
    assert sum(share.deserved for share in found) <= capacity
    for share, asked in zip(found, claims, strict=True):
        assert share.deserved <= asked.maximum
        if sum(each.guaranteed for each in claims) <= capacity:
            assert share.deserved >= asked.guaranteed
    if claims and all(each.weight for each in claims):
        assert sum(share.deserved for share in found) == min(capacity, sum(each.maximum for each in claims))


@given(clusters())
def test_what_is_lent_is_somebodys_unused_guarantee_and_is_borrowed_by_another(
    cluster: tuple[int, list[Claim]],
) -> None:
    capacity, claims = cluster
    found = shares(capacity, claims)
    for share, asked in zip(found, claims, strict=True):
        assert 0 <= share.lent <= max(0, asked.guaranteed - asked.held)
        assert not (share.lent and share.borrowed)
    assert sum(share.lent for share in found) <= sum(share.borrowed for share in found)


@given(clusters(), st.randoms(use_true_random=False))
def test_the_order_of_the_teams_does_not_matter(cluster: tuple[int, list[Claim]], chance: object) -> None:
    capacity, claims = cluster
    turned = list(claims)
    chance.shuffle(turned)  # type: ignore[attr-defined]
    assert set(shares(capacity, claims)) == set(shares(capacity, turned))


@given(st.integers(0, 300), st.dictionaries(st.sampled_from("abcde"), st.integers(0, 50)))
def test_all_is_given_that_has_room(total: int, room: dict[str, int]) -> None:
    assert sum(divided(total, dict.fromkeys(room, 1.0), room).values()) == min(total, sum(room.values()))
