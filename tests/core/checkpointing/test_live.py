"""The interval that the platform sets for a running job."""

from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st

from platform_core.checkpointing.habit import Losses
from platform_core.checkpointing.interval import daly
from platform_core.checkpointing.live import (
    ASSUMED_NODE_MS,
    LONGEST_MS,
    SHORTEST_MS,
    Measured,
    live_interval,
    mtbf_of_gang,
    worth_setting,
)
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS

SLOW = Measured(38_562, 0, 61_650, 894, Losses(500, 0), 0, 33)  # a save takes twice the time between failures
USUAL = Measured(2_000, 20_000, 60_000, 8, Losses(3, 60 * DAY_MS))
TIMES = st.integers(0, 4 * HOUR_MS)
MEASURED = st.builds(
    Measured, TIMES, TIMES, TIMES, st.integers(1, 2_000),
    st.builds(Losses, st.integers(0, 500), st.integers(0, 5_000 * DAY_MS)), st.integers(0, 50),
    st.integers(0, 90 * DAY_MS),
)  # fmt: skip


def test_it_is_dalys_optimum_where_nothing_else_bounds_it() -> None:
    live = live_interval(USUAL)
    assert live.bound == "optimum"
    assert live.mtbf_ms == (60 * DAY_MS + ASSUMED_NODE_MS) / 4 / 8
    assert live.interval_ms == live.optimum_ms == round(daly(2_000, live.mtbf_ms))
    assert live.sentence.endswith("Daly's optimum.")


def test_a_slow_store_lengthens_it() -> None:
    slow = live_interval(replace(USUAL, stored_ms=70 * MINUTE_MS))
    assert (slow.interval_ms, slow.bound) == (70 * MINUTE_MS, "store")
    assert "until a save is in the store" in slow.sentence


def test_preemptions_of_the_job_shorten_it() -> None:
    calm, stopped = replace(USUAL, ran_ms=DAY_MS), replace(USUAL, ran_ms=DAY_MS, stops=20)
    assert mtbf_of_gang(stopped) < mtbf_of_gang(calm) // 5
    assert live_interval(stopped).interval_ms < live_interval(calm).interval_ms


def test_a_cluster_that_has_lost_nothing_has_an_interval_too() -> None:
    assert live_interval(Measured(500, 1_000, 0, 1, Losses(0, 0))).interval_ms <= LONGEST_MS


@given(MEASURED)
def test_it_is_never_shorter_than_a_save_takes_and_stays_in_its_bounds(measured: Measured) -> None:
    live = live_interval(measured)
    assert max(SHORTEST_MS, measured.stored_ms) <= live.interval_ms <= max(LONGEST_MS, measured.stored_ms)
    assert 0 <= live.waste <= 1
    assert 0 <= live.saving <= 1
    assert live.mtbf_ms >= 1


@given(MEASURED, st.integers(0, 100))
@example(SLOW, 30)
def test_more_failures_never_lengthen_it(measured: Measured, more: int) -> None:
    losses = replace(measured.losses, lost=measured.losses.lost + more)
    worse = replace(measured, losses=losses, stops=measured.stops + more)
    assert live_interval(worse).interval_ms <= live_interval(measured).interval_ms


def test_noise_of_the_measurements_sets_no_new_interval() -> None:
    assert worth_setting(0, 60_000)
    assert not worth_setting(100_000, 110_000)
    assert worth_setting(100_000, 120_000)


@given(
    every_ms=st.integers(10_000, HOUR_MS // 2),
    blocking=st.integers(1, 20),
    stored=st.integers(1, 4),
    nodes=st.integers(1, 1_000),
)
@example(every_ms=15_000, blocking=20, stored=4, nodes=4)
def test_a_job_that_fails_again_and_again_makes_progress(
    every_ms: int, blocking: int, stored: int, nodes: int
) -> None:
    """Wherever a save fits between two failures, one is begun and stored there once three of them were seen."""
    blocking_ms, stored_ms = every_ms * blocking // 400, every_ms * stored // 16
    calm = Measured(blocking_ms, stored_ms, every_ms // 10, nodes, Losses(0, 300 * DAY_MS))
    for seen in range(3, 40):
        ended_ago_ms = tuple(number * every_ms for number in range(seen))
        live = live_interval(replace(calm, ended_ago_ms=ended_ago_ms))
        assert calm.restart_ms + live.interval_ms + blocking_ms + stored_ms <= every_ms


def test_what_lies_six_hours_back_is_left_to_the_usual_rate() -> None:
    ago = tuple(6 * HOUR_MS + number * 15_000 for number in range(50))
    assert live_interval(replace(USUAL, ended_ago_ms=ago)) == live_interval(USUAL)


def test_a_single_failure_does_not_set_the_interval() -> None:
    assert live_interval(replace(USUAL, ended_ago_ms=(1_000,))) == live_interval(USUAL)


@given(MEASURED, st.lists(st.integers(0, 12 * HOUR_MS), max_size=40))
def test_ends_of_late_only_ever_shorten_it(measured: Measured, ago: list[int]) -> None:
    lately = live_interval(replace(measured, ended_ago_ms=tuple(ago)))
    assert lately.mtbf_ms <= live_interval(measured).mtbf_ms
