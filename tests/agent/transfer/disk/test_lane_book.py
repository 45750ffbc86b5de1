"""The book of lanes agrees with a plain set, in whatever order pieces come."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.transfer.disk.lane_book import LaneBook
from platform_core.distribution.swarm.runs import joined


@given(st.integers(1, 5), st.lists(st.integers(0, 60)))
def test_runs_are_those_of_the_pieces_that_came(lanes: int, numbers: list[int]) -> None:
    book = LaneBook(lanes, numbers)
    for lane, runs in enumerate(book.runs()):
        places = {number // lanes for number in numbers if number % lanes == lane}
        assert runs == joined((place, place + 1) for place in places)


def test_a_piece_that_comes_twice_is_no_news() -> None:
    book = LaneBook(2, [0, 2])
    before = book.version
    book.add(2)
    assert book.version == before
