"""A long run under failures."""

from random import Random

import pytest

from platform_core.checkpointing.interval import waste
from platform_core.recovery.endurance import Conditions, advised, endure, fixed

MINUTE, HOUR = 60_000, 3_600_000
CHEAP = Conditions(blocking_ms=0, write_ms=0, recovery_ms=0)


def failures(seed: int, mtbf_ms: int, wall_ms: int) -> list[int]:
    chance, moments, now = Random(seed), [], 0.0
    while (now := now + chance.expovariate(1 / mtbf_ms)) < wall_ms:
        moments.append(round(now))
    return moments


def test_without_failures_only_saving_costs() -> None:
    run = endure([], 10 * HOUR, Conditions(MINUTE, MINUTE, HOUR), fixed(59 * MINUTE))
    assert (run.failures, run.lost_ms, run.recovering_ms) == (0, 0, 0)
    assert run.ettr == pytest.approx(59 / 60)


def test_a_failure_costs_the_work_since_the_last_checkpoint_and_the_recovery() -> None:
    run = endure([90 * MINUTE], 3 * HOUR, Conditions(0, 0, 5 * MINUTE), fixed(HOUR))
    assert (run.lost_ms, run.recovering_ms) == (30 * MINUTE, 5 * MINUTE)
    assert run.productive_ms == 3 * HOUR - 35 * MINUTE


def test_a_checkpoint_that_was_not_written_yet_is_lost_too() -> None:
    run = endure([65 * MINUTE], 2 * HOUR, Conditions(0, 10 * MINUTE, 0), fixed(HOUR))
    assert run.lost_ms == 65 * MINUTE


def test_a_failure_during_a_recovery_begins_it_anew() -> None:
    run = endure([HOUR, HOUR + 4 * MINUTE], 2 * HOUR, Conditions(0, 0, 5 * MINUTE), fixed(10 * MINUTE))
    assert (run.failures, run.recovering_ms) == (2, 9 * MINUTE)


@pytest.mark.parametrize("seed", range(5))
def test_all_of_the_time_is_accounted_for(seed: int) -> None:
    wall, conditions = 200 * HOUR, Conditions(20_000, 90_000, 3 * MINUTE)
    run = endure(failures(seed, 5 * HOUR, wall), wall, conditions, fixed(20 * MINUTE))
    assert run.productive_ms + run.saving_ms + run.lost_ms + run.recovering_ms == wall


def test_the_mean_of_many_runs_is_that_of_the_published_model() -> None:
    conditions, wall, mtbf = Conditions(30_000, 30_000, 2 * MINUTE), 2_000 * HOUR, 5 * HOUR
    runs = [
        endure(failures(seed, mtbf, wall), wall, conditions, fixed(20 * MINUTE)).ettr for seed in range(8)
    ]
    assert sum(runs) / 8 == pytest.approx(1 - waste(20 * MINUTE, 30_000, mtbf, 2 * MINUTE), abs=0.005)


def test_the_advised_interval_learns_the_rate_of_failures() -> None:
    conditions = Conditions(10_000, 60_000, MINUTE)
    interval = advised(conditions, expected_ms=24 * HOUR)
    assert interval(100 * HOUR, 50) < interval(100 * HOUR, 1)
    assert interval(HOUR, 100_000) == conditions.write_ms
