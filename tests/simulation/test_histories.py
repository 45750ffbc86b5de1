"""Histories short enough to follow by hand, and what holds for all."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.cluster.health import DEFAULT_LIMITS
from platform_core.cluster.snapshot import NodeView, Snapshot
from platform_core.scheduling.engine import Decisions, decide, plan
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.policy import Policy
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.ledger import Ledger
from platform_core.simulation.report import report
from platform_core.simulation.workload import Departure, Knowledge, TraceJob
from tests.core.scheduling.rules import violations
from tests.core.scheduling.situations import node

FIFO = Policy("first_come", skip_ahead=False)
SKIP = Policy("first_come")
SRTF = Policy("shortest_remaining", evicts=True)
SUSPECT_MS = DEFAULT_LIMITS.suspect_ms  # so long nobody knows that a node has failed
OURS = Policy("size_and_wait", evicts=True, migrates=True, reservations=1)
ELASTIC = Policy("first_come", reservations=1, elastic=True)
POLICIES = [
    FIFO,
    SKIP,
    Policy("first_come", reservations=1),
    Policy("shortest_remaining", reservations=3),
    Policy("least_attained_service", evicts=True),
    SRTF,
    Policy("shortest_remaining", evicts=True, reservations=2),
    OURS,
    ELASTIC,
    replace(OURS, elastic=True),
]


def job(name: str, submit_s: int, gpus: int, duration_s: int) -> TraceJob:
    return TraceJob(name, submit_s * 1_000, gpus, duration_s * 1_000, duration_s * 2_000)


def stretchy(name: str, submit_s: int, gpus: int, duration_s: int, least: int) -> TraceJob:
    return replace(job(name, submit_s, gpus, duration_s), min_gpus=least)


def cluster(*slots: int) -> list[NodeView]:
    return [node(f"n{number}", slots=each) for number, each in enumerate(slots)]


def ends(policy: Policy, nodes: list[NodeView], *jobs: TraceJob, exact: bool = True) -> dict[str, float]:
    """Second at which each job ends."""
    ledger = Cluster(nodes, jobs, policy, Knowledge.EXACT if exact else Knowledge.LIMITS).run()
    return {outcome.job.id: outcome.ended_ms / 1_000 for outcome in ledger.outcomes}


def test_a_job_on_a_free_cluster_takes_its_duration() -> None:
    assert ends(SKIP, cluster(8), job("a", 10, 8, 60)) == {"a": 70}


def test_strict_order_keeps_the_small_job_behind_the_big_one() -> None:
    jobs = [job("running", 0, 4, 100), job("big", 1, 8, 50), job("small", 2, 1, 10)]
    assert ends(FIFO, cluster(8), *jobs) == {"running": 100, "big": 150, "small": 160}
    assert ends(SKIP, cluster(8), *jobs) == {"running": 100, "big": 150, "small": 12}


def test_a_stream_of_small_jobs_starves_the_gang_unless_a_place_is_kept() -> None:
    stream = [job(f"s{number}", number * 50, 4, 100) for number in range(10)]
    jobs = [*stream, job("gang", 60, 8, 10)]
    assert ends(SKIP, cluster(8), *jobs)["gang"] > 500
    assert ends(Policy("first_come", reservations=1), cluster(8), *jobs)["gang"] == 160


def test_an_evicted_job_loses_no_work_but_pays_for_its_resume() -> None:
    jobs = [job("long", 0, 8, 1_000), job("short", 100, 8, 10)]
    ledger = Cluster(cluster(8), jobs, SRTF, Knowledge.EXACT).run()
    assert {each.job.id: each.ended_ms for each in ledger.outcomes} == {"short": 110_000, "long": 1_040_000}
    assert (ledger.preemptions, ledger.lost_gpu_ms) == (1, 30_000 * 8)
    assert {each.job.id: each.queued_ms for each in ledger.outcomes} == {"short": 0, "long": 10_000}


def test_an_elastic_job_works_in_proportion_to_its_gpus() -> None:
    assert ends(ELASTIC, cluster(4), stretchy("a", 0, 8, 100, least=2)) == {"a": 200}


def test_an_elastic_job_is_shrunk_for_a_newcomer_and_grows_when_it_has_gone() -> None:
    """An hour on eight, then two hours on four while the newcomer has the others, and the rest on eight again."""
    jobs = [stretchy("long", 0, 8, 40_000, least=4), job("new", 3_600, 4, 7_200)]
    cluster_ = Cluster(cluster(8), jobs, ELASTIC, Knowledge.EXACT)
    ledger = cluster_.run()
    told = {each.job.id: each.ended_ms // 1_000 for each in ledger.outcomes}
    assert told == {"new": 10_800, "long": 40_000 + 3_600 + 30 + 15}
    assert (ledger.preemptions, ledger.resizes) == (0, 2)


def test_a_spot_node_that_goes_moves_its_job_which_has_saved_its_work() -> None:
    gone = Departure("node-n0", at_ms=100_000, back_ms=500_000)
    ledger = Cluster(cluster(8), [job("a", 0, 8, 300)], SKIP, departures=[gone]).run()
    assert [(each.job.id, each.ended_ms) for each in ledger.outcomes] == [("a", 730_000)]


def test_a_node_that_fails_without_notice_costs_the_work_since_the_start() -> None:
    failed = Departure("node-n0", at_ms=100_000, notice_ms=0, back_ms=500_000)
    ledger = Cluster(cluster(8), [job("a", 0, 8, 300)], SKIP, departures=[failed]).run()
    assert ledger.outcomes[0].ended_ms == 830_000
    assert ledger.lost_gpu_ms == 8 * (100_000 + 30_000 + 30_000)  # its silence is noticed after 30 s


@pytest.mark.parametrize(
    ("order", "new_ends"), [("least_attained_service", 1_685), ("least_attained_service_8h", 14_460)]
)
def test_attained_service_lets_a_newcomer_pass_after_the_first_queue(order: str, new_ends: int) -> None:
    jobs = [job("old", 0, 2, 40_000), job("new", 100, 2, 60)]
    assert ends(Policy(order, evicts=True), cluster(2), *jobs)["new"] == new_ends


def test_limits_are_all_that_the_scheduler_sees_unless_it_is_an_oracle() -> None:
    jobs = [
        job("running", 0, 8, 100),
        TraceJob("liar", 1_000, 8, 10_000, 90_000),
        TraceJob("honest", 2_000, 8, 20_000, 20_000),
    ]
    shortest = Policy("shortest_remaining")
    assert ends(shortest, cluster(8), *jobs, exact=True)["liar"] == 110
    assert ends(shortest, cluster(8), *jobs, exact=False)["liar"] == 130


def test_a_job_that_can_never_start_stops_the_history_with_its_name() -> None:
    with pytest.raises(RuntimeError, match="1 jobs can never start, the first are huge"):
        Cluster(cluster(8), [job("huge", 0, 9, 1)], SKIP).run()


@st.composite
def workloads(draw: st.DrawFn) -> list[TraceJob]:
    gangs = st.sampled_from([1, 1, 2, 4, 8])
    return [
        job(
            f"j{number:02}",
            draw(st.integers(0, 300)),
            draw(gangs),
            draw(st.integers(1, 200)),
        )
        for number in range(draw(st.integers(1, 15)))
    ]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
@settings(max_examples=30)
@given(jobs=workloads())
def test_every_job_ends_with_all_its_work_done(policy: Policy, jobs: list[TraceJob]) -> None:
    ledger = Cluster(cluster(4, 4, 2), jobs, policy).run()
    assert sorted(each.job.id for each in ledger.outcomes) == [each.id for each in jobs]
    assert all(each.held_ms >= each.job.duration_ms and each.queued_ms >= 0 for each in ledger.outcomes)
    overtime = sum((each.held_ms - each.job.duration_ms) * each.job.gpus for each in ledger.outcomes)
    assert overtime <= ledger.lost_gpu_ms


@st.composite
def departures(draw: st.DrawFn) -> list[Departure]:
    """In order of time. Each node goes once at most, and comes back."""
    gone = [
        Departure(
            name, at_ms, draw(st.sampled_from([0, 20_000, 120_000])), at_ms + draw(st.integers(0, 400_000))
        )
        for name in draw(st.sets(st.sampled_from(["node-n0", "node-n1", "node-n2"])))
        for at_ms in [draw(st.integers(0, 400)) * 1_000]
    ]
    return sorted(gone, key=lambda each: each.at_ms)


@pytest.mark.parametrize("policy", [SKIP, OURS, ELASTIC], ids=str)
@settings(max_examples=30)
@given(jobs=workloads(), gone=departures())
def test_nothing_is_placed_on_a_node_after_its_notice_and_every_job_ends(
    policy: Policy, jobs: list[TraceJob], gone: list[Departure]
) -> None:
    def judged(snapshot: Snapshot, policy: Policy) -> Decisions:
        decided = decide(snapshot, policy)
        away = {
            each.node
            for each in gone
            if each.at_ms + (0 if each.notice_ms else SUSPECT_MS)
            <= snapshot.now_ms
            < max(each.at_ms + each.notice_ms, each.back_ms or 0)
        }
        seats = {seat.node for _, placement in decided.started for seat in placement.members}
        assert not seats & away
        return decided

    ledger = Cluster(cluster(4, 4, 2), jobs, policy, decider=judged, departures=gone).run()
    assert sorted(each.job.id for each in ledger.outcomes) == [each.id for each in jobs]


@st.composite
def elastic_workloads(draw: st.DrawFn) -> list[TraceJob]:
    """Long enough for the least runs to matter."""
    return [
        stretchy(
            f"j{number:02}",
            draw(st.integers(0, 20_000)),
            most,
            draw(st.integers(1, 20_000)),
            draw(st.integers(1, most)),
        )
        for number in range(draw(st.integers(1, 10)))
        for most in [draw(st.sampled_from([1, 2, 4, 8]))]
    ]


@settings(max_examples=60)
@given(jobs=elastic_workloads())
def test_elastic_jobs_stay_within_their_sizes_and_are_not_resized_all_the_time(jobs: list[TraceJob]) -> None:
    asked = {each.id: each for each in jobs}
    stopped: list[tuple[int, str]] = []

    def judged(snapshot: Snapshot, policy: Policy) -> Decisions:
        for running in snapshot.running:
            assert asked[running.id].min_gpus <= running.held <= asked[running.id].gpus
        decided = decide(snapshot, policy)
        begun = {running.id: running.started_ms for running in snapshot.running}
        for stop in decided.stops:
            assert snapshot.now_ms - begun[stop.job_id] >= 10 * 60_000
            stopped.append((snapshot.now_ms, stop.job_id))
        return decided

    ledger = Cluster(cluster(4, 4, 2), jobs, ELASTIC, decider=judged).run()
    assert sorted(each.job.id for each in ledger.outcomes) == [each.id for each in jobs]
    assert ledger.preemptions == 0
    assert len(stopped) == len(set(stopped)) == ledger.resizes


@given(jobs=workloads())
@settings(max_examples=30)
def test_each_round_of_a_history_keeps_the_rules(jobs: list[TraceJob]) -> None:
    def judged(snapshot: Snapshot, policy: Policy) -> Decisions:
        assert violations(snapshot, plan(snapshot, policy)) == set()
        return decide(snapshot, policy)

    Cluster(cluster(4, 4, 2), jobs, SKIP, decider=judged).run()


def busy_history(policy: Policy = SRTF) -> Ledger:
    jobs = [job(f"j{n:03}", n * 7 % 400, (1, 2, 4, 8)[n % 4], 20 + n * 37 % 500) for n in range(80)]
    return Cluster(cluster(4, 4, 2), jobs, policy).run()


def test_the_report_is_the_same_under_another_hash_seed() -> None:
    code = (
        "import json; from tests.simulation.test_histories import OURS, busy_history, report;"
        "print(json.dumps([report(busy_history()), report(busy_history(OURS))]))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert told == {json.dumps([report(busy_history()), report(busy_history(OURS))]) + "\n"}


def test_the_report_counts_what_happened() -> None:
    ledger = Cluster(cluster(8), [job("a", 0, 8, 100), job("b", 50, 1, 100)], SKIP).run()
    told = report(ledger)
    assert (told["jobs"], told["mean_jct_s"], told["p50_jct_s"], told["p99_jct_s"]) == (
        2,
        125.0,
        100.0,
        150.0,
    )
    assert (told["mean_queue_s"], told["p99_queue_s"]) == (25.0, 50.0)
    assert (told["utilisation"], told["makespan_s"], told["preemptions"]) == (1.0, 200.0, 0)
    assert told["by_size"] == {
        "1": {"jobs": 1, "mean_jct_s": 150.0, "mean_queue_s": 50.0},
        "2-8": {"jobs": 1, "mean_jct_s": 100.0, "mean_queue_s": 0.0},
        "9+": {"jobs": 0, "mean_jct_s": None, "mean_queue_s": None},
        "largest_1%": {"jobs": 1, "mean_jct_s": 100.0, "mean_queue_s": 0.0},
    }


def test_every_ordering_policy_can_drive_a_history() -> None:
    for order in ORDERS:
        assert ends(Policy(order), cluster(8), job("a", 0, 8, 5)) == {"a": 5}


def test_what_stopping_costs_is_what_restarts_have_taken_so_far() -> None:
    told: dict[str, list[int | None]] = {}

    def listen(snapshot: Snapshot, policy: Policy) -> Decisions:
        for running in snapshot.running:
            told.setdefault(running.id, []).append(running.restart_ms)
        return decide(snapshot, policy)

    first, second = job("long", 0, 4, 9_000), job("other", 0, 1, 9_000)
    others = [job("short", 100, 8, 50), job("shorter", 1_000, 8, 40), job("last", 1_010, 1, 500)]
    Cluster(cluster(8), [first, second, *others], SRTF, Knowledge.EXACT, decider=listen).run()
    assert told["long"][0] is None, "nothing was measured yet"
    assert told["long"][-1] == 30_000
    assert told["other"][-1] == 7_000
    assert set(told["shorter"]) == {30_000}, "as others of its class"
