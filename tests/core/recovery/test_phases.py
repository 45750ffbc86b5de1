"""The phases of a recovery and the effective training time."""

from dataclasses import replace

from platform_core.recovery.phases import AttemptTimes, Phases, between, effective, summary, weighted

FIRST = AttemptTimes(
    placed_ms=1_000, running_ms=2_000, loaded_ms=5_000, first_step_ms=5_500,
    progress_ms=60_000, kept_ms=50_000, stopping_ms=62_000, ended_ms=63_000,
)  # fmt: skip
SECOND = AttemptTimes(placed_ms=64_000, running_ms=66_000, loaded_ms=69_000, first_step_ms=69_500)


def test_each_phase_follows_the_one_before() -> None:
    phases = between(FIRST, SECOND)
    assert phases == Phases(detect=2_000, stop=1_000, place=1_000, fetch=2_000, load=3_000, first_step=500)
    assert phases.total_ms == SECOND.first_step_ms - FIRST.progress_ms  # type: ignore[operator]
    assert phases.complete


def test_a_gang_that_waits_for_slots_has_only_the_first_phases() -> None:
    assert between(FIRST, None) == Phases(detect=2_000, stop=1_000)
    assert not between(FIRST, AttemptTimes(64_000)).complete


def test_a_script_without_a_checkpoint_loads_nothing() -> None:
    phases = between(FIRST, replace(SECOND, loaded_ms=None))
    assert (phases.load, phases.first_step) == (0, 3_500)


def test_a_stop_by_order_is_detected_at_once() -> None:
    assert between(replace(FIRST, failed=False), SECOND).detect == 0


def test_a_clock_that_runs_ahead_makes_no_phase_negative() -> None:
    phases = between(FIRST, replace(SECOND, loaded_ms=65_000))
    assert phases.load == 0
    assert phases.first_step == 3_500
    assert all(span is None or span >= 0 for span in (phases.detect, phases.fetch))


def test_an_attempt_that_failed_before_its_first_step_counts_from_its_newest_moment() -> None:
    early = AttemptTimes(placed_ms=1_000, running_ms=3_000, stopping_ms=9_000, ended_ms=9_500)
    assert between(early, SECOND).detect == 6_000


def test_effective_time_counts_only_work_that_was_kept() -> None:
    ends = effective([FIRST, replace(SECOND, ended_ms=169_500, kept_ms=169_500)], 200_000)
    assert ends.productive_ms == (50_000 - 5_500) + 100_000
    assert ends.wall_ms == 168_500
    assert effective([replace(FIRST, kept_ms=None)], 63_000).productive_ms == 0
    assert effective([], 5).ratio is None


def test_a_running_attempt_counts_until_now() -> None:
    running = AttemptTimes(placed_ms=0, first_step_ms=1_000)
    assert effective([running], 11_000).ratio == 10_000 / 11_000


def test_of_a_period_only_its_part_of_a_run_counts() -> None:
    whole = [replace(FIRST, ended_ms=63_000), replace(SECOND, ended_ms=169_500, kept_ms=169_500)]
    part = effective(whole, 100_000, 40_000)
    assert (part.productive_ms, part.wall_ms) == ((50_000 - 40_000) + (100_000 - 69_500), 60_000)
    assert effective(whole, 200_000, 180_000).ratio is None


def test_large_runs_weigh_more() -> None:
    busy, idle = effective([replace(SECOND, placed_ms=0, first_step_ms=0)], 100), effective([FIRST], 1_100)
    assert (busy.ratio, idle.ratio) == (1.0, 0.0)
    assert weighted([(busy, 3), (idle, 1)]).ratio == 0.75
    assert weighted([]).ratio is None


def test_the_mean_of_each_phase_is_of_those_that_succeeded() -> None:
    slower = replace(between(FIRST, SECOND), load=5_000)
    sums = summary([(between(FIRST, SECOND), True, 0), (slower, True, 0), (Phases(detect=9), True, 0)])
    assert (sums.mean.load, sums.mean.detect, sums.mean_ms) == (4_000, 2_000, 10_500)
    assert summary([]).mean == Phases()


def test_a_recovery_whose_attempt_failed_again_is_no_success() -> None:
    good, bad = between(FIRST, SECOND), between(FIRST, AttemptTimes(64_000))
    sums = summary([(good, True, 40), (bad, True, 40), (bad, False, 1)])
    assert (sums.count, sums.succeeded, sums.success) == (2, 1, 0.5)
    assert (sums.mean_ms, sums.steps_lost) == (9_500, 81)
    assert summary([]).success is None
