"""Who is slow, and who only hangs below somebody slow; paces change seldom."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import example, given
from hypothesis import strategies as st

from platform_core.distribution.planning.forest import STORE, Seat
from platform_core.distribution.slow_nodes.pace import Port, Watch, judge, look, ports
from platform_core.distribution.slow_nodes.windows import Seen, Window, rates_of

LANES = 4
OTHERS = [f"n{number}" for number in range(9)]


def seat(node: str, *parents: str, rack: str = "r", pace: int = 100) -> Seat:
    return Seat(node, ("b", rack), parents * (LANES // len(parents)), pace)


def usual(at_ms: int) -> dict[str, Seen]:
    """They hold one unit more of each lane with every millisecond."""
    return {node: Seen(at_ms, (at_ms,) * LANES) for node in OTHERS}


SEATS = [seat(node, "n0" if node != "n0" else "") for node in OTHERS]


def port_of(
    node: str, before: dict[str, Seen], now: dict[str, Seen], seats: dict[str, Seat], jitter_ms: int = 0
) -> Port:
    rates = rates_of(before, now, seats)
    return ports(Window(before, now, rates, jitter_ms), seats, 1000 * LANES)[node]


def windows(held: Mapping[int, float], *, below: str = "n0") -> list[dict[str, int]]:
    """What is changed, window by window, when a node below another holds so much of each lane."""
    watch, pace, told = Watch(), 100, []
    for number, mine in held.items():
        at = 4000 * number
        now = usual(at) | {"lame": Seen(at, (mine,) * LANES)}
        watch, changed = look(watch, now, [*SEATS, seat("lame", below, pace=pace)])
        pace = changed.paces.get("lame", pace)
        told.append(changed.paces)
    return told


def test_a_node_is_slow_when_it_leaves_what_is_offered_in_two_windows_running() -> None:
    assert windows({number: 400.0 * number for number in range(5)}) == [{}, {}, {"lame": 10}, {}, {}]


def test_one_bad_window_is_forgiven() -> None:
    assert windows({0: 0, 1: 400, 2: 4400, 3: 8400}) == [{}] * 4


def test_a_link_that_recovers_is_as_usual_again_after_three_windows() -> None:
    recovers = {0: 0.0, 1: 400.0, 2: 800.0} | {n: 800.0 + 4000 * (n - 2) for n in range(3, 7)}
    assert windows(recovers) == [{}, {}, {"lame": 10}, {}, {}, {"lame": 100}, {}]


def below_a_slow_one(at_ms: int, *nodes: str) -> dict[str, Seen]:
    slow = {node: Seen(at_ms, (at_ms / 10,) * LANES) for node in nodes}
    return usual(at_ms) | slow


def test_who_gets_little_because_its_source_gets_little_is_not_accused() -> None:
    seats = {each.node: each for each in [*SEATS, seat("slow", "n0"), seat("below", "slow")]}
    window = below_a_slow_one(0, "slow", "below"), below_a_slow_one(4000, "slow", "below"), seats
    assert port_of("slow", *window) == Port(400, LANES, LANES)
    assert port_of("below", *window) == Port(400, 0, 0)


def test_followers_of_an_overloaded_source_are_late_together() -> None:
    late = ("late0", "late1", "late2")
    seats = {each.node: each for each in [*SEATS, *(seat(node, "n1") for node in late)]}
    assert port_of("late0", below_a_slow_one(0, *late), below_a_slow_one(4000, *late), seats) == Port(
        400, LANES, 0
    )


def test_a_crowded_uplink_accuses_nobody_who_keeps_up_within_its_rack() -> None:
    near, far = seat("near", "", rack="mine"), seat("far", "", rack="other")
    me = Seat("me", ("b", "mine"), ("near", "far", "near", "far"))
    before = {node: Seen(0, (0,) * LANES) for node in ("near", "far", "me")}
    now = {node: Seen(4000, (4000,) * LANES) for node in ("near", "far")}
    now |= {"me": Seen(4000, (4000, 400) * 2)}
    assert port_of("me", before, now, {"near": near, "far": far, "me": me}) == Port(2200, 0, 0)


def test_a_lane_that_was_counted_a_little_earlier_has_not_fallen_behind() -> None:
    seats = {each.node: each for each in [*SEATS, seat("me", "n0")]}
    now = usual(4000) | {"me": Seen(4000, (3600,) * LANES)}
    before = usual(0) | {"me": Seen(0, (0,) * LANES)}
    assert port_of("me", before, now, seats).fell_behind == LANES
    assert port_of("me", before, now, seats, jitter_ms=250).fell_behind == 0


def test_a_node_that_begins_anew_is_not_taken_for_slow() -> None:
    assert windows({0: 0, 1: 4000, 2: 100, 3: 500, 4: 4500}) == [{}] * 5, "one bad window, the one after it"


def test_who_holds_all_others_up_is_found_though_they_get_less_than_it_does() -> None:
    """The end of a transfer: they lack the lane of which the slow one is the root, and it has yet to take the rest."""
    slow = Seat("slow", ("b", "r"), (STORE, "n0", "n0", "n0"))
    seats = [slow, *(Seat(node, ("b", "r"), ("slow", "n0", "n0", "n0")) for node in OTHERS)]
    watch, told = Watch({}, usual=4000), []
    for at in range(0, 13_000, 4000):
        mine = at / 30
        others = {node: Seen(at, (at / 40, 4000, 4000, 4000)) for node in OTHERS}
        watch, changed = look(watch, others | {"slow": Seen(at, (at / 40, mine, mine, mine))}, seats)
        told.append(changed.paces)
    assert told == [{}, {}, {"slow": 10}, {}]


def with_two_lanes(at_ms: int, **slow: float) -> tuple[list[Seat], dict[str, Seen]]:
    """Two roots, each of one lane, that feed all others; those who are named hold so much of each lane."""
    seats = [Seat("root0", ("b", "r"), (STORE, "root1")), Seat("root1", ("b", "r"), ("root0", STORE))]
    seats += [Seat(node, ("b", "r"), ("root0", "root1")) for node in OTHERS]
    return seats, {seat.node: Seen(at_ms, (slow.get(seat.node, at_ms),) * 2) for seat in seats}


def told_with_two_lanes(**part: float) -> list[dict[str, int]]:
    """Window by window, when those who are named take this part of each lane."""
    watch, told = Watch(), []
    for at in range(0, 13_000, 4000):
        seats, now = with_two_lanes(at, **{node: at * taken for node, taken in part.items()})
        watch, changed = look(watch, now, seats)
        told.append(dict(changed.paces))
    return told


def test_a_slow_root_is_known_by_what_it_leaves_at_the_store_and_at_the_other_root() -> None:
    assert told_with_two_lanes(root0=0.5) == [{}, {}, {"root0": 50}, {}]


def test_a_store_that_gives_one_root_less_than_others_makes_it_not_slow() -> None:
    seats, now = with_two_lanes(4000, root0=2000)
    seats[0] = Seat("root0", ("b", "r"), (STORE, STORE))
    seats += [Seat(root, ("b", "r"), (STORE, STORE)) for root in ("root2", "root3")]
    before = {seat.node: Seen(0, (0,) * 2) for seat in seats}
    now |= {root: Seen(4000, (4000,) * 2) for root in ("root2", "root3")}
    assert port_of("root0", before, now, {seat.node: seat for seat in seats}).fell_behind == 1


def test_who_enters_a_rack_is_judged_by_the_lane_from_afar_too() -> None:
    seats, now = with_two_lanes(4000, n0=1000)
    seats[2] = Seat("n0", ("b", "mine"), ("root0", "n1"))
    seats[3] = Seat("n1", ("b", "mine"), ("root0", "root1"))
    _, before = with_two_lanes(0)
    assert port_of("n0", before, now, {seat.node: seat for seat in seats}) == Port(500, 2, 1)


def test_without_news_nobody_is_judged() -> None:
    assert judge({}, {}, {}, 0) == ({}, {})
    again = Seen(5, (1,))
    assert (
        rates_of({"me": again}, {"me": again, "new": again}, {"me": seat("me", ""), "new": seat("new", "")})
        == {}
    )


@example(93, [-4, -4, 4, 4, 4, -4, -4, 4, 4, 4, -4, -4])
@given(st.integers(1, 100), st.lists(st.integers(-4, 4), min_size=12, max_size=12))
def test_a_steady_rate_finds_its_pace_and_keeps_it_however_it_wavers(percent: int, noise: list[int]) -> None:
    """Between the steps too: at most the first word is corrected downwards, and never does it go to and fro."""
    paces, doubts, told = dict[str, int](), dict[str, int](), list[int]()
    for waver in noise:
        seen_now = {f"n{n}": Port(1000, 0, 0) for n in range(5)}
        seen_now["me"] = Port(max(1, percent * 10 + waver * 5), 4, 4)
        changed, doubts = judge(seen_now, paces, doubts, 1000)
        paces |= changed
        told += changed.values()
    assert len(told) <= 2
    assert told == sorted(told, reverse=True)
