"""What was told against what came: what an operator reads off it must be true of every start."""

from hypothesis import given
from hypothesis import strategies as st

from platform_core.scheduling.forecast.calibration import (
    TOLERANCE_MS,
    Calibration,
    Came,
    Horizon,
    Start,
    by_horizon,
    calibration,
    horizon,
)
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS

SPANS = st.one_of(
    st.sampled_from([0, TOLERANCE_MS, TOLERANCE_MS + 1, MINUTE_MS, MINUTE_MS + 1, HOUR_MS, HOUR_MS + 1]),
    st.integers(0, DAY_MS),
)


@st.composite
def starts(draw: st.DrawFn) -> Start:
    told_ms = draw(st.integers(0, DAY_MS))
    early_ms = told_ms + draw(SPANS)
    late_ms = draw(st.none() | SPANS.map(lambda span: early_ms + span))
    return Start(told_ms, early_ms, late_ms, told_ms + draw(SPANS))


def start(early_ms: int, late_ms: int | None, started_ms: int) -> Start:
    return Start(0, early_ms, late_ms, started_ms)


def test_forecasts_are_held_against_what_came():
    known = [
        start(100_000, 200_000, 150_000),
        start(100_000, 200_000, 205_000),  # within a few seconds
        start(100_000, 200_000, 40_000),
        start(100_000, 210_000, 310_000),
        start(100_000, None, 900_000),
    ]
    told = calibration(known)
    assert told == Calibration(5, within=3, before=1, after=1, median_miss_ms=60_000, median_width_ms=100_000)
    assert calibration([]) == Calibration(0, 0, 0, 0, 0, None)


def test_one_without_an_end_in_sight_can_only_come_too_early():
    assert start(MINUTE_MS, None, 30 * DAY_MS).came is Came.HELD
    assert start(MINUTE_MS, None, 0).came is Came.EARLIER
    assert calibration([start(0, None, 0)]).median_width_ms is None


@given(starts())
def test_a_start_is_within_exactly_when_no_bound_is_passed_by_more_than_the_tolerance(one: Start):
    too_early = one.started_ms + TOLERANCE_MS < one.early_ms
    too_late = one.late_ms is not None and one.started_ms - TOLERANCE_MS > one.late_ms
    assert one.came is (Came.EARLIER if too_early else Came.LATER if too_late else Came.HELD)


@given(starts(), st.integers(-DAY_MS, DAY_MS))
def test_only_differences_count_not_the_clock(one: Start, shift: int):
    late_ms = None if one.late_ms is None else one.late_ms + shift
    moved = Start(one.told_ms + shift, one.early_ms + shift, late_ms, one.started_ms + shift)
    assert (moved.miss_ms, moved.came, horizon(moved)) == (one.miss_ms, one.came, horizon(one))


@given(starts(), st.integers(0, DAY_MS))
def test_a_wider_interval_never_misses_by_more(one: Start, wider: int):
    late_ms = None if one.late_ms is None else one.late_ms + wider
    widened = Start(one.told_ms, one.early_ms - wider, late_ms, one.started_ms)
    assert abs(widened.miss_ms) <= abs(one.miss_ms)


@given(st.lists(starts(), max_size=30))
def test_each_start_is_counted_once_and_under_one_horizon(known: list[Start]):
    whole = calibration(known)
    assert whole.starts == len(known) == whole.within + whole.before + whole.after
    parts = by_horizon(known)
    for name in ("starts", "within", "before", "after"):
        assert sum(getattr(part, name) for part in parts.values()) == getattr(whole, name)
    assert list(parts) == [reach for reach in Horizon if reach in parts], "from the nearest"
    assert all(part.starts for part in parts.values())
    assert calibration(known[::-1]) == whole


@given(st.lists(starts(), min_size=1, max_size=30))
def test_half_of_the_misses_are_no_larger_than_the_one_told(known: list[Start]):
    missed = [abs(one.miss_ms) for one in known if one.came is not Came.HELD]
    told = calibration(known).median_miss_ms
    assert sum(miss <= told for miss in missed) * 2 >= len(missed)
    assert not missed or told > TOLERANCE_MS


def test_a_horizon_reaches_to_the_latest_that_was_told_its_end_included():
    reached = {
        late_ms: horizon(Start(5, 5, late_ms and 5 + late_ms, 5))
        for late_ms in (
            MINUTE_MS,
            MINUTE_MS + 1,
            10 * MINUTE_MS,
            10 * MINUTE_MS + 1,
            HOUR_MS,
            HOUR_MS + 1,
            None,
        )
    }
    assert list(reached.values()) == [
        Horizon.MINUTE, Horizon.MINUTES, Horizon.MINUTES, Horizon.HOUR, Horizon.HOUR, Horizon.LONGER, Horizon.OPEN,
    ]  # fmt: skip
