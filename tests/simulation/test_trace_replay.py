"""The benchmark's command on a trace of four jobs."""

from __future__ import annotations

import json
import random
from pathlib import Path

from click.testing import CliRunner

from benchmarks.scheduler import CONTESTANTS, limit_of, main, read_trace

TRACE = "submit_s,gpus,duration_s,team\n0,8,100,a\n10,16,50,b\n86400,1,20,a\n86401,64,20,a\n"


def replayed(tmp_path: Path, *options: str) -> list[dict[str, object]]:
    trace = tmp_path / "tiny.csv"
    trace.write_text(TRACE)
    told = CliRunner().invoke(main, ["--trace", str(trace), "--nodes", "2", *options], catch_exceptions=False)
    assert told.exit_code == 0
    return [json.loads(line) for line in told.output.splitlines()]


def test_each_policy_gets_a_line_with_all_jobs_that_fit(tmp_path: Path) -> None:
    lines = replayed(tmp_path)
    assert [line["policy"] for line in lines] == list(CONTESTANTS)
    assert {(line["jobs"], line["too_large"]) for line in lines} == {(3, 1)}


def test_first_come_on_two_nodes_is_what_a_hand_counts(tmp_path: Path) -> None:
    [line] = replayed(tmp_path, "--policy", "fifo")
    assert (line["mean_jct_s"], line["mean_queue_s"]) == (86.7, 30.0)


def test_a_window_of_days_starts_at_zero(tmp_path: Path) -> None:
    trace = tmp_path / "tiny.csv"
    trace.write_text(TRACE)
    jobs = read_trace(trace, "1:2", "exact", seed=1, speedup=1.0)
    assert [(job.submit_ms, job.gpus, job.limit_ms) for job in jobs] == [(0, 1, 20_000), (1_000, 64, 20_000)]


def test_limits_are_unknown_exact_or_drawn_within_the_factor() -> None:
    rng = random.Random(1)
    assert limit_of(1_000, "none", rng) == 7 * 86_400_000
    assert limit_of(1_000, "exact", rng) == 1_000
    assert all(1_000 <= limit_of(1_000, "factor:1-5", rng) <= 5_000 for _ in range(100))
