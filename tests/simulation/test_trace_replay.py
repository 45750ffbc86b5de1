"""The benchmark's command on a trace of four jobs."""

from __future__ import annotations

import json
import random
from itertools import islice
from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.scheduler import CONTESTANTS, cluster_of, limit_of, main, read_trace
from benchmarks.scheduler_faults import Faults
from platform_core.checkpointing.interval import advise
from platform_core.simulation.faults import Rates
from platform_core.simulation.workload import TraceJob

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


FAULTS = (
    "--node-failures-per-day", "200", "--repair-s", "60", "--spot-fraction", "0.5", "--spot-notices-per-day", "200",
    "--save-s", "2", "--checkpoint-s", "30",
)  # fmt: skip


def test_with_failures_a_line_tells_what_went_wrong_and_with_which_settings(tmp_path: Path) -> None:
    [line] = replayed(tmp_path, "--policy", "skip", *FAULTS)
    assert line["faults"] == {
        "rates": {
            "failures_per_day": 200.0,
            "repair_ms": 60_000,
            "notices_per_day": 200.0,
            "notice_ms": 120_000,
        },
        "spot_fraction": 0.5,
        "checkpoint": "30",
        "save_s": 2.0,
    }
    assert line["node_failures"] > 0  # type: ignore[operator]
    assert line["spot_notices"] > 0  # type: ignore[operator]
    assert [line] == [
        {**again, "plan_s_per_round": line["plan_s_per_round"]}
        for again in replayed(tmp_path, "--policy", "skip", *FAULTS)
    ]


def test_failures_are_drawn_from_the_seed_and_nothing_else() -> None:
    faults = Faults(Rates(failures_per_day=1.0))
    first, second = (list(islice(faults.departures(cluster_of(nodes, 8), seed=3), 20)) for nodes in (4, 4))
    assert first == second
    assert first != list(islice(faults.departures(cluster_of(4, 8), seed=4), 20))


def test_the_advised_interval_is_shorter_for_gangs_over_more_nodes() -> None:
    faults = Faults(Rates(failures_per_day=0.1), checkpoint="advised", save_s=30)
    jobs = [TraceJob("one", 0, 8, 1, 1), TraceJob("many", 0, 64, 1, 1)]
    one, many = (job.saving.every_ms for job in faults.saving(jobs, 8))
    assert one == advise(30_000, 864_000_000, 1, 30_000).interval_ms
    assert many == advise(30_000, 864_000_000, 8, 60_000).interval_ms
    assert many < one / 2


def test_a_part_of_the_nodes_are_spot_evenly_among_them() -> None:
    marked = Faults(spot_fraction=0.25).marked(cluster_of(8, 8))
    assert [each.taints for each in marked] == [(), (), (), ("spot",)] * 2


def test_the_classes_of_jobs_may_stand_in_the_trace(tmp_path: Path) -> None:
    trace = tmp_path / "classes.csv"
    trace.write_text(
        "submit_s,gpus,duration_s,preemptible,min_gpus,checkpoint_s\n0,8,100,no,,\n1,8,100,yes,2,600\n"
    )
    fixed, elastic = read_trace(trace, "", "exact", seed=1, speedup=1.0)
    assert (fixed.preemptible, fixed.min_gpus, fixed.saving.every_ms) == (False, 0, 0)
    assert (elastic.preemptible, elastic.min_gpus, elastic.saving.every_ms) == (True, 2, 600_000)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--node-failures-per-day", "-1"), "-1.0 failures a day of a node"),
        (("--spot-fraction", "2"), "a part of 2.0 of the nodes are spot"),
        (("--checkpoint-s", "often"), "jobs save every 'often' s; it must be a number, or advised"),
        (("--checkpoint-s", "advised"), "--save-s and --node-failures-per-day; both must be more than 0"),
        (("--save-s", "-3"), "a save takes -3.0 s"),
    ],
)
def test_a_flag_that_cannot_be_is_refused_with_its_value(
    tmp_path: Path, options: tuple[str, str], told: str
) -> None:
    trace = tmp_path / "tiny.csv"
    trace.write_text(TRACE)
    result = CliRunner().invoke(main, ["--trace", str(trace), *options])
    assert result.exit_code == 2
    assert told in " ".join(result.output.split())
