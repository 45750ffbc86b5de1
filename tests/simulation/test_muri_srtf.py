"""The published rules by hand: who is placed, who is stopped, what a start costs."""

from __future__ import annotations

import pytest

from benchmarks.muri_srtf import mean_completion_s
from platform_core.simulation.workload import TraceJob


def job(submit_s: int, gpus: int, duration_s: int) -> TraceJob:
    return TraceJob(f"{submit_s}-{gpus}", submit_s * 1_000, gpus, duration_s * 1_000, 0, "everyone")


def test_the_shorter_one_stops_the_longer_and_it_goes_on_afterwards() -> None:
    assert mean_completion_s([job(0, 64, 100), job(10, 64, 20)]) == (120 + 20) / 2


def test_whoever_does_not_fit_is_passed_by() -> None:
    assert mean_completion_s([job(0, 57, 10), job(0, 8, 20), job(0, 7, 30)]) == (10 + 30 + 30) / 3


def test_every_event_costs_all_that_run_a_start_but_those_that_end() -> None:
    """Until the second comes at 10 s the first has done 6 s of 50, and ends at 54; the second has done 40 by then."""
    assert mean_completion_s([job(0, 1, 50), job(10, 1, 200)], start_s=4) == (54 + 204) / 2


def test_work_takes_longer_than_the_trace_says() -> None:
    assert mean_completion_s([job(0, 1, 100)], stretch=1.015) == pytest.approx(101.5)


def test_one_larger_than_the_cluster_is_said() -> None:
    with pytest.raises(ValueError, match="1 jobs are larger than 8 nodes of 8 GPUs"):
        mean_completion_s([job(0, 65, 1)])
