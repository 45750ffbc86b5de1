"""Who leaves a full disk, over all small disks; and that nobody leaves who must stay."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.content.cache import Home, evict

SIZE = 1000


def home(name: str, size: int, used_ms: int, **kept: bool) -> Home:
    return Home(name, size, used_ms, **kept)


def names(homes: tuple[Home, ...]) -> list[str]:
    return [one.id for one in homes]


@st.composite
def disks(draw: st.DrawFn) -> tuple[list[Home], int]:
    """Some models, and what is free beside them and everything else on the disk."""
    flags = st.booleans()
    homes = [
        Home(
            f"m{number}", draw(st.integers(0, 300)), draw(st.integers(0, 5)), *(draw(flags) for _ in range(4))
        )
        for number in range(draw(st.integers(0, 8)))
    ]
    used = sum(one.size for one in homes)
    return homes, draw(st.integers(0, max(0, SIZE - used)))


WATERMARKS = st.tuples(st.integers(0, 100), st.integers(0, 100)).map(sorted)


def in_use(homes: list[Home], free: int, gone: tuple[Home, ...], coming: int = 0) -> int:
    return SIZE - free - sum(one.size for one in gone) + coming


def test_the_oldest_use_goes_first_and_no_more_than_needed() -> None:
    homes = [home("new", 200, 30), home("old", 200, 10), home("older", 200, 5)]
    assert names(evict(homes, free=50, size=SIZE, low=80, high=90)) == ["older"]
    assert names(evict(homes, free=50, size=SIZE, low=70, high=90)) == ["older", "old"]
    assert evict(homes, free=100, size=SIZE, low=70, high=90) == (), "at the mark is not above it"


def test_what_was_only_preheated_goes_before_what_was_used() -> None:
    homes = [home("used", 200, 1), home("preheated", 200, 99, preheated=True)]
    assert names(evict(homes, free=50, size=SIZE, low=80, high=90)) == ["preheated"]


def test_room_is_made_for_what_is_coming() -> None:
    homes = [home("old", 300, 1)]
    assert evict(homes, free=400, size=SIZE, low=80, high=90) == ()
    assert names(evict(homes, free=400, size=SIZE, low=80, high=90, coming=350)) == ["old"]


def test_nothing_goes_in_vain() -> None:
    homes = [home("old", 300, 1)]
    assert evict(homes, free=400, size=SIZE, low=80, high=90, coming=701) == ()
    assert names(evict(homes, free=50, size=SIZE, low=80, high=90, coming=701)) == ["old"], (
        "it is too full anyhow"
    )


@given(disks(), WATERMARKS, st.integers(0, 500))
def test_what_is_pinned_active_or_under_way_never_goes(
    disk: tuple[list[Home], int], marks: list[int], coming: int
) -> None:
    homes, free = disk
    gone = evict(homes, free, SIZE, marks[0], marks[1], coming)
    assert not any(one.pinned or one.active or one.under_way for one in gone)
    assert len(set(names(gone))) == len(gone)


@given(disks(), WATERMARKS, st.integers(0, 500))
def test_it_stops_at_the_low_mark_or_has_nothing_left(
    disk: tuple[list[Home], int], marks: list[int], coming: int
) -> None:
    homes, free = disk
    low, high = marks
    gone = evict(homes, free, SIZE, low, high, coming)
    may_go = [one for one in homes if not one.kept and one.size]
    fits = coming <= free + sum(one.size for one in may_go)
    before = in_use(homes, free, (), coming if fits else 0)
    if before * 100 <= SIZE * high:
        assert gone == ()
    else:
        after = before - sum(one.size for one in gone)
        assert after * 100 <= SIZE * low or len(gone) == len(may_go)
        if gone:
            assert (after + gone[-1].size) * 100 > SIZE * low, "the last of them was needed"


@given(disks(), WATERMARKS)
def test_those_who_stay_were_of_use_later(disk: tuple[list[Home], int], marks: list[int]) -> None:
    homes, free = disk
    gone = evict(homes, free, SIZE, *marks)
    for one in gone:
        for other in homes:
            if other not in gone and not other.kept and other.size and other.preheated >= one.preheated:
                assert (other.used_ms, other.id) >= (one.used_ms, one.id)


@given(disks(), WATERMARKS)
def test_a_second_look_finds_nothing_to_do(disk: tuple[list[Home], int], marks: list[int]) -> None:
    homes, free = disk
    low, high = marks
    gone = evict(homes, free, SIZE, low, high)
    left = [one for one in homes if one not in gone]
    freed = sum(one.size for one in gone)
    assert evict(left, free + freed, SIZE, low, high) == () or not any(
        not one.kept and one.size for one in left
    )


@given(disks(), WATERMARKS)
def test_a_pin_changes_nothing_but_what_is_pinned(disk: tuple[list[Home], int], marks: list[int]) -> None:
    homes, free = disk
    gone = evict(homes, free, SIZE, *marks)
    for one in gone:
        pinned = [replace(each, pinned=True) if each == one else each for each in homes]
        assert one.id not in names(evict(pinned, free, SIZE, *marks))
