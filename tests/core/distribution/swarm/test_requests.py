from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.planning.forest import STORE, NodePlan
from platform_core.distribution.swarm.requests import Follow, View, next_actions
from platform_core.distribution.swarm.runs import joined, missing, run_at

PLAN = NodePlan("me", (("mother", "aunt", STORE), ("father", "uncle", STORE)))
FRESH = View(
    pieces=200,
    holds=((), ()),
    neighbours=dict.fromkeys(("mother", "aunt", "father", "uncle"), ((), ())),
    following=(None, None),
    leap=5,
    patience=20,
)
UNDER_WAY = (Follow(0, "mother", 0, 100), Follow(1, "father", 0, 100))


def has(view: View, **neighbours: object) -> View:
    return replace(view, neighbours=dict(view.neighbours) | neighbours)


def test_at_the_start_each_lane_follows_its_parent() -> None:
    assert next_actions(PLAN, FRESH) == UNDER_WAY


def test_nothing_is_asked_while_all_goes_well() -> None:
    view = replace(FRESH, following=UNDER_WAY, holds=(((0, 30),), ()))
    assert next_actions(PLAN, view) == ()


def test_a_dead_parent_is_bypassed_in_its_lane_only_and_from_where_it_stopped() -> None:
    view = replace(FRESH, following=UNDER_WAY, holds=(((0, 30),), ((0, 31),)), gone=frozenset({"mother"}))
    assert next_actions(PLAN, view) == (Follow(0, "aunt", 30, 100),)


def test_a_slow_one_is_left_when_there_is_another_and_kept_when_there_is_none() -> None:
    view = replace(FRESH, following=UNDER_WAY, slow=frozenset({"mother"}))
    assert next_actions(PLAN, view) == (Follow(0, "aunt", 0, 100),)
    alone = replace(view, following=(Follow(0, "mother", 0, 100), UNDER_WAY[1]), gone=frozenset({"aunt"}))
    assert next_actions(PLAN, alone) == ()


def test_the_store_is_asked_only_when_no_neighbour_is_left() -> None:
    view = replace(FRESH, following=UNDER_WAY, gone=frozenset({"mother", "aunt"}))
    assert next_actions(PLAN, view) == (Follow(0, STORE, 0, 100),)


def test_a_node_that_loses_all_at_once_asks_the_store_only_when_nothing_has_come_for_a_while() -> None:
    view = replace(
        FRESH, following=(None, UNDER_WAY[1]), holds=(((0, 30),), ()), gone=frozenset({"mother", "aunt"})
    )
    assert next_actions(PLAN, view) == ()
    assert next_actions(PLAN, replace(view, stalled=frozenset({0}))) == (Follow(0, STORE, 30, 100),)


ROOT = NodePlan("me", ((STORE,), ("father", "uncle", STORE)))


def test_a_root_that_comes_back_goes_on_pulling_where_others_are_by_now() -> None:
    away = replace(FRESH, holds=(((0, 30),), ()), following=(None, UNDER_WAY[1]))
    ahead = has(away, father=(((0, 70),), ()), uncle=(((0, 60),), ()))
    assert next_actions(ROOT, ahead) == (Follow(0, STORE, 70, 100),)
    under_way = replace(
        ahead, holds=(((0, 30), (70, 75)), ()), following=(Follow(0, STORE, 70, 100), UNDER_WAY[1])
    )
    assert next_actions(ROOT, has(under_way, father=(((0, 74),), ()))) == ()
    pulled = replace(under_way, holds=(((0, 30), (70, 100)), ()))
    assert next_actions(ROOT, pulled) == (Follow(0, "father", 30, 70),)


def test_a_root_goes_on_though_others_have_a_little_more_of_what_it_passed_on_than_it_has_written() -> None:
    for here in (30, 95):
        pulling = replace(FRESH, holds=(((0, here),), ()), following=(Follow(0, STORE, 0, 100), UNDER_WAY[1]))
        assert next_actions(ROOT, has(pulling, father=(((0, here + FRESH.leap),), ()))) == ()
    away = replace(FRESH, holds=(((0, 30),), ()), following=(Follow(0, STORE, 0, 100), UNDER_WAY[1]))
    assert next_actions(ROOT, has(away, father=(((0, 36),), ()))) == (Follow(0, STORE, 36, 100),)


def test_a_root_that_comes_back_when_all_has_been_pulled_takes_it_from_a_neighbour() -> None:
    away = replace(FRESH, holds=(((0, 30),), ()), following=(None, UNDER_WAY[1]))
    done = has(away, father=(((0, 100),), ()))
    assert next_actions(ROOT, done) == (Follow(0, "father", 30, 100),)
    later = replace(done, holds=(((0, 50),), ()), following=(Follow(0, "father", 30, 100), UNDER_WAY[1]))
    assert next_actions(ROOT, later) == ()


def test_a_root_that_has_left_out_much_already_catches_up_first() -> None:
    runs = tuple((at, at + 1) for at in range(0, 12, 2))
    away = replace(FRESH, holds=(runs, ()), following=(None, UNDER_WAY[1]))
    assert next_actions(ROOT, has(away, father=(((0, 70),), ()))) == (Follow(0, "father", 11, 70),)


def test_a_parent_that_is_back_without_what_has_come_since_is_not_waited_for_while_another_works() -> None:
    working = replace(FRESH, following=(Follow(0, "aunt", 30, 100), UNDER_WAY[1]), holds=(((0, 40),), ()))
    assert next_actions(PLAN, has(working, mother=(((0, 15),), ()), aunt=(((0, 39),), ()))) == ()
    level = has(working, mother=(((0, 25),), ()), aunt=(((0, 39),), ()))
    assert next_actions(PLAN, level) == (Follow(0, "mother", 40, 100),)
    back_again = replace(level, following=(Follow(0, "mother", 40, 100), UNDER_WAY[1]))
    assert next_actions(PLAN, has(back_again, mother=(((0, 15),), ()), aunt=(((0, 45),), ()))) == ()


def test_goes_back_to_the_parent_that_returned() -> None:
    view = has(
        replace(
            FRESH,
            following=(Follow(0, "aunt", 30, 100), UNDER_WAY[1]),
            holds=(((0, 40),), ()),
        ),
        mother=(((0, 30), (38, 45)), ()),
    )
    assert next_actions(PLAN, view) == (Follow(0, "mother", 40, 100),)


def test_goes_on_with_a_parent_that_left_out_just_what_is_wanted_unless_it_cannot_keep_up() -> None:
    view = has(
        replace(FRESH, holds=(((0, 35),), ())), mother=(((0, 30), (38, 45)), ()), aunt=(((0, 45),), ())
    )
    assert next_actions(PLAN, view)[0] == Follow(0, "mother", 38, 100)
    assert next_actions(replace(PLAN, slower=frozenset({0})), view)[0] == Follow(0, "aunt", 35, 100)


def test_one_far_behind_goes_on_where_its_neighbours_are_and_fills_the_gap_afterwards() -> None:
    returned = has(replace(FRESH, holds=(((0, 10),), ())), mother=(((0, 60),), ()))
    assert next_actions(PLAN, returned)[0] == Follow(0, "mother", 60, 100)
    at_the_end = has(replace(FRESH, holds=(((0, 10), (60, 100)), ())), mother=(((0, 100),), ()))
    assert next_actions(PLAN, at_the_end)[0] == Follow(0, "mother", 10, 60)


def test_one_that_leapt_does_not_leap_again_before_something_has_come() -> None:
    leapt = (Follow(0, "mother", 60, 100), UNDER_WAY[1])
    waits = replace(FRESH, holds=(((0, 10),), ()), following=leapt)
    assert next_actions(PLAN, has(waits, mother=(((0, 90),), ()))) == ()
    for_long = replace(waits, stalled=frozenset({0}))
    assert next_actions(PLAN, has(for_long, mother=(((0, 90),), ()))) == (Follow(0, "mother", 90, 100),)
    came = replace(waits, holds=(((0, 10), (60, 61)), ()))
    assert next_actions(PLAN, has(came, mother=(((0, 90),), ()))) == (Follow(0, "mother", 90, 100),)
    left_out = has(waits, mother=(((0, 50), (80, 90)), ()))
    assert next_actions(PLAN, left_out) == (Follow(0, "mother", 90, 100),)


def test_a_stalled_lane_leaves_a_parent_that_lacks_the_piece_only_for_one_far_ahead() -> None:
    view = replace(FRESH, following=UNDER_WAY, holds=(((0, 30),), ()), stalled=frozenset({0}))
    waiting = has(view, mother=(((0, 30),), ()), aunt=(((0, 35),), ()))
    assert next_actions(PLAN, waiting) == ()
    assert next_actions(PLAN, has(waiting, aunt=(((0, 36),), ()))) == (Follow(0, "aunt", 30, 100),)


def test_one_that_leaps_again_and_again_stays_behind_its_parent() -> None:
    behind = has(FRESH, mother=(((0, 70),), ()))
    often = tuple((start, start + 1) for start in range(0, 12, 2))
    assert next_actions(PLAN, replace(behind, holds=(often[:5], ())))[0] == Follow(0, "mother", 70, 100)
    assert next_actions(PLAN, replace(behind, holds=(often, ())))[0] == Follow(0, "mother", 11, 100)


def test_nobody_leaves_a_living_parent_only_because_nothing_has_come_so_far_down_yet() -> None:
    view = has(replace(FRESH, following=UNDER_WAY, stalled=frozenset({0})), aunt=(((0, 90),), ()))
    assert next_actions(PLAN, view) == ()
    waits = replace(view, following=(Follow(0, "father", 0, 100), UNDER_WAY[1]), gone=frozenset({"mother"}))
    assert next_actions(PLAN, waits) == (Follow(0, "aunt", 0, 100),)


def test_a_stalled_lane_is_helped_by_any_neighbour_and_at_last_by_the_store() -> None:
    view = replace(FRESH, following=(Follow(0, "aunt", 30, 100), UNDER_WAY[1]), holds=(((0, 30),), ()),
                   gone=frozenset({"mother"}), stalled=frozenset({0}))  # fmt: skip
    helped = has(view, aunt=(((0, 30),), ()), uncle=(((0, 60),), ()))
    assert next_actions(PLAN, helped) == (Follow(0, "uncle", 30, 100),)
    alone = has(view, aunt=(((0, 30),), ()))
    assert next_actions(PLAN, alone) == (Follow(0, STORE, 30, 100),)
    settled = replace(alone, following=(Follow(0, STORE, 30, 100), UNDER_WAY[1]), stalled=frozenset())
    assert next_actions(PLAN, settled) == ()


def test_a_parent_far_behind_is_waited_for_only_so_long() -> None:
    view = replace(FRESH, holds=(((0, 60),), ()))
    near = has(view, mother=(((0, 41),), ()), aunt=(((0, 64),), ()))
    assert next_actions(PLAN, near)[0] == Follow(0, "mother", 60, 100)
    assert next_actions(PLAN, has(near, mother=(((0, 39),), ())))[0] == Follow(0, "aunt", 60, 100)


def test_a_new_parent_that_has_told_nothing_yet_is_where_the_plan_has_it() -> None:
    view = replace(FRESH, holds=(((0, 60),), ()), neighbours={"aunt": (((0, 100),), ())})
    assert next_actions(PLAN, view)[0] == Follow(0, "mother", 60, 100)
    assert next_actions(PLAN, has(view, mother=((), ())))[0] == Follow(0, "aunt", 60, 100)


def test_a_gap_is_filled_by_whoever_has_it_in_whatever_lane_they_are_told_for() -> None:
    view = replace(
        FRESH, holds=(((0, 40), (50, 100)), ((0, 100),)), neighbours={"mother": (((0, 40), (50, 100)), ())}
    )
    assert next_actions(PLAN, view) == (Follow(0, "mother", 40, 50),)  # she has to get it herself
    assert next_actions(PLAN, has(view, uncle=(((0, 100),), ()))) == (Follow(0, "uncle", 40, 50),)
    root = NodePlan("me", ((STORE,), ("father", STORE)))
    assert next_actions(root, replace(view, neighbours={})) == (Follow(0, STORE, 40, 50),)


def test_a_gap_that_the_parent_left_out_too_comes_through_it_unless_it_stalls() -> None:
    gap = (((0, 40), (50, 100)), ((0, 100),))
    view = has(replace(FRESH, holds=gap), mother=gap, aunt=(((0, 100),), ()))
    assert next_actions(PLAN, view) == (Follow(0, "mother", 40, 50),)
    stalls = replace(view, following=(Follow(0, "mother", 40, 50), None), stalled=frozenset({0}))
    assert next_actions(PLAN, stalls) == (Follow(0, "aunt", 40, 50),)
    moves = replace(view, following=(Follow(0, "aunt", 40, 50), None))
    assert next_actions(PLAN, moves) == (), "it goes on where it comes from"
    fills = has(view, mother=(((0, 45), (50, 100)), ()))
    assert next_actions(PLAN, fills) == (Follow(0, "mother", 40, 50),), "what she has, and what she gets next"
    first_she_fills = has(view, mother=(((0, 10), (50, 100)), ()))
    assert next_actions(PLAN, first_she_fills) == (Follow(0, "aunt", 40, 50),)


def test_of_several_gaps_the_one_that_fewest_can_fill_comes_first() -> None:
    view = has(
        replace(FRESH, holds=(((10, 50), (60, 100)), ((0, 100),))),
        mother=(((0, 100),), ()),
        aunt=(((0, 40),), ()),
    )
    assert next_actions(PLAN, view) == (Follow(0, "mother", 50, 60),)


def test_a_complete_node_asks_for_nothing() -> None:
    assert next_actions(PLAN, replace(FRESH, holds=(((0, 100),), ((0, 100),)))) == ()


RUNS = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=5).map(joined)
NAMES = st.sampled_from(["mother", "aunt", "father", "uncle"])


@given(
    st.tuples(RUNS, RUNS), st.dictionaries(NAMES, st.tuples(RUNS, RUNS)), st.frozensets(NAMES), st.frozensets(NAMES),
    st.frozensets(st.integers(0, 1)),
)  # fmt: skip
def test_asks_for_what_it_lacks_of_those_that_live_and_for_nothing_twice(
    holds, near, gone, slow, stalled
) -> None:
    view = replace(FRESH, holds=holds, neighbours=near, gone=gone, slow=slow, stalled=stalled)
    asked = next_actions(PLAN, view)
    waiting = {
        lane for lane in (0, 1) if holds[lane] and lane not in stalled and not {*PLAN.lanes[lane][:2]} - gone
    }
    lacking = {lane for lane in (0, 1) if missing(holds[lane], 100)}
    assert lacking - waiting <= {each.lane for each in asked} <= lacking
    for each in asked:
        assert each.source in {name for lane in PLAN.lanes for name in lane}
        # One that holds nothing and has lost all whom it knew in the lane.
        begins = not holds[each.lane] and not {*PLAN.lanes[each.lane][:2]} - gone
        anybody = begins or each.lane in stalled or PLAN.lanes[each.lane][0] in slow
        assert each.source in PLAN.lanes[each.lane] or each.until < 100 or anybody
        assert each.source not in gone
        living = {*PLAN.lanes[each.lane][:2]} - gone
        assert each.source != STORE or not living or (each.lane in stalled and len(living) < 2)
        assert 0 <= each.first < each.until <= 100
        assert all(run_at(holds[each.lane], piece) is None for piece in range(each.first, each.until))
    following = tuple(next((each for each in asked if each.lane == lane), None) for lane in (0, 1))
    assert next_actions(PLAN, replace(view, following=following)) == ()
