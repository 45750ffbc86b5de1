"""Who takes as much as anybody and sends little: its followers' other lanes go well."""

from __future__ import annotations

import pytest

from platform_core.distribution.planning import mesh
from platform_core.distribution.planning.forest import STORE, Seat, Tree, most_children
from platform_core.distribution.planning.repair import mend
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.slow_nodes.pace import Watch, look
from platform_core.distribution.slow_nodes.windows import Seen

LANES, WINDOW_MS = 4, 4000
PARENTS = ("p0", "p1", "p2", "p3")
FOLLOWERS = ("a", "b", "c")


def seats(rack: str = "r", pace: int = 100) -> list[Seat]:
    """Each parent feeds one lane of all followers, and is fed by the store."""
    parents = [Seat(node, ("", "r"), (STORE,) * LANES) for node in PARENTS]
    return parents + [Seat(node, ("", rack), PARENTS, pace) for node in FOLLOWERS]


def judged(
    lanes: tuple[float, ...], among: list[Seat], windows: int, parents: float = 1.0
) -> list[dict[str, int]]:
    """What is told of senders, window by window, when the followers get so much of each lane of what is usual."""
    watch, told = Watch(), []
    for number in range(windows):
        at = number * WINDOW_MS
        now = {node: Seen(at, (at * parents,) * LANES) for node in PARENTS}
        now |= {node: Seen(at, tuple(at * part for part in lanes)) for node in FOLLOWERS}
        watch, changes = look(watch, now, among)
        told.append(dict(changes.sends))
    return told


def test_who_gives_half_of_what_it_has_in_three_windows_running_is_known_by_it() -> None:
    assert judged((0.5, 1, 1, 1), seats(), 5) == [{}, {}, {}, {"p0": 50}, {}]


def test_two_weak_ones_are_both_found_though_they_share_their_followers() -> None:
    assert judged((0.1, 0.3, 1, 1), seats(), 4)[-1] == {"p0": 10, "p1": 30}


@pytest.mark.parametrize("lanes", [(0.9, 1, 1, 1), (0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1)])
def test_who_gives_nearly_all_or_whose_followers_are_slow_themselves_is_not_accused(
    lanes: tuple[float, ...],
) -> None:
    assert not any(judged(lanes, seats(), 6))


def test_what_has_nothing_to_give_is_not_weak() -> None:
    """All of it comes late to the parents too."""
    assert not any(judged((0.5, 0.5, 0.5, 0.5), seats(), 6, parents=0.5))


def test_slow_followers_tell_nothing_of_their_parents() -> None:
    assert not any(judged((0.5, 1, 1, 1), seats(pace=50), 6))


def test_where_uplinks_are_crowded_what_crosses_them_tells_nothing() -> None:
    assert not any(judged((0.5, 0.5, 0.5, 1), seats(rack="elsewhere"), 6))
    assert judged((0.5, 1, 1, 1), seats(rack="elsewhere"), 4)[-1] == {"p0": 50}


@pytest.mark.parametrize(("percent", "slots"), [(50, 2), (25, 1), (10, 0)])
def test_who_sends_less_feeds_so_many_fewer_and_nobody_twice_what_it_can(percent: int, slots: int) -> None:
    places = [Place(f"n{number:03}", f"r{number // 25}") for number in range(100)]
    forest = mesh.plan(places)
    feeding = max(Tree(forest).children.items(), key=lambda each: len(each[1]))[0]
    mended = mend(forest, sends={feeding: percent})
    assert len(Tree(mended).children[feeding]) <= slots
    assert most_children(mended.seats) <= LANES + 1
    assert {seat.node: seat.sends for seat in mended.seats}[feeding] == percent
    again = mend(mended, gone={"n050"} - {feeding})
    assert {seat.node: seat.sends for seat in again.seats}[feeding] == percent
