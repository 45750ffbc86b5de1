from __future__ import annotations

from dataclasses import replace

import pytest

from platform_core.distribution.planning.forest import STORE, NodePlan
from platform_core.distribution.swarm.endgame import Ending, look
from platform_core.distribution.swarm.requests import Follow, View, next_actions

PLAN = NodePlan("me", (("mother", "aunt", STORE), ("father", "uncle", STORE)))
ALL = (((0, 100),), ((0, 100),))
# The second lane is complete; of the first the mother has all, and we have forty pieces.
NEAR_THE_END = View(
    pieces=200,
    holds=(((0, 40),), ((0, 100),)),
    neighbours=dict.fromkeys(("mother", "aunt", "father", "uncle"), ALL),
    following=(Follow(0, "mother", 0, 100), None),
    leap=5,
    patience=20,
)
BEGAN, LATER = Ending(0), 10_000  # the second lane had 12.5 pieces a second when it was seen to be complete


def looks(earlier: View, now: View) -> Ending:
    """Two of them, two seconds apart."""
    return look(look(BEGAN, earlier, LATER - 2_000), now, LATER)


def had(pieces: int, view: View = NEAR_THE_END) -> View:
    return replace(view, holds=(((0, pieces),), view.holds[1]))


def test_in_the_end_whoever_sends_less_than_half_of_what_is_usual_is_left() -> None:
    ending = looks(had(28), had(40))
    assert ending.slow(LATER) == {"mother"}
    avoiding = replace(NEAR_THE_END, slow=ending.slow(LATER))
    assert next_actions(PLAN, avoiding) == (Follow(0, "aunt", 40, 100),)


def test_whoever_sends_half_is_not() -> None:
    assert not looks(had(27), had(40)).slow(LATER)


def test_a_slow_start_does_not_hide_what_is_usual() -> None:
    """A piece in the first two seconds, and in the next two a whole lane."""
    both = (NEAR_THE_END.following[0], Follow(1, "father", 0, 100))
    start = replace(NEAR_THE_END, holds=(((0, 1),), ((0, 1),)), following=both)
    ending = look(BEGAN, start, 2_000)
    ending = look(ending, had(3), 4_000)
    assert look(ending, had(5), 6_000).slow(6_000) == {"mother"}


def test_it_is_asked_again_a_minute_later() -> None:
    ending = looks(had(28), had(40))
    assert ending.slow(LATER + 59_999)
    assert not ending.slow(LATER + 60_000)
    assert not look(ending, replace(had(90), following=(None, None)), LATER + 60_000).avoided


def test_while_every_lane_moves_it_is_left_to_the_coordinator() -> None:
    moving = replace(NEAR_THE_END, following=(NEAR_THE_END.following[0], Follow(1, "father", 0, 100)))
    earlier, now = (replace(moving, holds=(((0, 40),), ((0, pieces),))) for pieces in (85, 99))
    assert not looks(earlier, now).slow(LATER)


def test_one_that_is_late_itself_is_left_where_anybody_has_more() -> None:
    late = {**NEAR_THE_END.neighbours, "mother": (((0, 40),), ())}
    view = replace(had(40), neighbours=late)
    assert looks(view, view).slow(LATER) == {"mother"}


@pytest.mark.parametrize(
    "changes",
    [
        {"neighbours": {"mother": (((0, 40),), ())}},
        {"neighbours": {"mother": (((0, 44),), ())}},
        {"neighbours": {"mother": (((0, 40),), ()), "aunt": ALL}, "gone": frozenset({"aunt"})},
        {"neighbours": {}},
        {"following": (Follow(0, STORE, 0, 100), None)},
        {"following": (None, None)},
    ],
    ids=[
        "nobody has more", "nobody has much more", "who has more is gone", "nothing is known of it",
        "it is the store", "nobody is followed",
    ],
)  # fmt: skip
def test_who_is_not_to_blame_stays(changes) -> None:
    view = replace(NEAR_THE_END, **changes)
    assert not looks(had(40, view), had(40, view)).slow(LATER)


def test_whom_it_has_just_turned_to_has_its_time() -> None:
    before = replace(NEAR_THE_END, following=(Follow(0, "aunt", 30, 100), None))
    assert not looks(before, NEAR_THE_END).slow(LATER)


def test_a_gap_is_left_to_others_as_well() -> None:
    filling = replace(
        NEAR_THE_END, holds=(((0, 10), (60, 100)), ((0, 100),)), following=(Follow(0, "mother", 10, 60), None)
    )
    assert looks(filling, filling).slow(LATER) == {"mother"}


def test_what_was_here_before_it_began_does_not_count_as_usual() -> None:
    """Of the lane that is complete 92 were here: a piece a second is usual, and one in two seconds is half of it."""
    resumed = Ending(0, had=(35, 92))
    assert not look(look(resumed, had(39), LATER - 2_000), had(40), LATER).slow(LATER)


def test_what_is_usual_was_seen_while_all_lanes_moved() -> None:
    """The longer the end takes, the less a node has had on average."""
    ending = looks(had(28), had(28))
    assert look(ending, had(29), 10 * LATER).usual == ending.usual


def test_it_does_not_look_more_often_however_often_it_is_asked() -> None:
    first = look(BEGAN, had(37), LATER - 2_000)
    assert look(first, had(37), LATER - 501) is first
