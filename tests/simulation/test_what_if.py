"""The same jobs with other nodes, quotas and policies."""

from dataclasses import replace

from platform_core.cluster.snapshot import TeamShare
from platform_core.quotas.hierarchy import Hierarchy, Sibling
from platform_core.quotas.recent_use import UseBefore
from platform_core.scheduling.policy import Policy
from platform_core.simulation.what_if import Circumstances, Course, History, play
from platform_core.simulation.workload import TraceJob
from tests.core.scheduling.situations import node

MINUTE_MS = 60_000


def job(
    name: str, gpus: int, minutes: int, *, at: int = 0, team: str = "vision", priority: int = 50
) -> TraceJob:
    took_ms = minutes * MINUTE_MS
    return TraceJob(name, at * MINUTE_MS, gpus, took_ms, took_ms, team, priority)


def history(jobs: list[TraceJob], nodes: int = 1, **maximum: int) -> History:
    shares = tuple(TeamShare(team, "a100", 0, limit, 0, 1.0, 1.0) for team, limit in maximum.items())
    return play(jobs, Circumstances(tuple(node(f"n{n}") for n in range(nodes)), shares, Policy()))


def test_one_node_more_and_nobody_waits():
    jobs = [job("a", 8, 10), job("b", 8, 10)]
    assert history(jobs, nodes=1, vision=16).report["mean_queue_s"] == 300
    assert history(jobs, nodes=2, vision=16).report["mean_queue_s"] == 0


def test_a_smaller_quota_makes_a_team_wait_for_itself():
    jobs = [job("a", 4, 10), job("b", 4, 10)]
    assert history(jobs, vision=8).report["makespan_s"] == 600
    assert history(jobs, vision=4).report["makespan_s"] == 1200


def test_what_can_never_start_is_told_and_the_others_go_on():
    told = history([job("huge", 9, 10), job("a", 4, 10), job("stranger", 1, 1, team="nlp")], vision=16)
    assert told.never_started == ("huge", "stranger")
    assert told.report["jobs"] == 1


def test_priorities_count():
    jobs = [job("first", 8, 10), job("later", 8, 1, at=1), job("urgent", 8, 1, at=2, priority=0)]
    assert history(jobs, vision=8).course.waiting == (0, 1, 2, 1, 0, 0)


def test_the_course_tells_what_was_held_and_waited_for():
    told = history([job("a", 8, 10), job("b", 2, 10, at=5)], vision=8)
    assert told.course == Course(
        (0, 5 * MINUTE_MS, 10 * MINUTE_MS, 20 * MINUTE_MS), (8, 8, 2, 0), (0, 1, 0, 0)
    )
    assert history([]).course == Course((), (), ())


def fair_history(jobs: list[TraceJob], used: dict[str, float] | None) -> History:
    """Of two teams of equal weight, on one node; with `used`, it begins with that."""
    equal = Hierarchy({}, {"a": Sibling(1.0), "b": Sibling(1.0)})
    shares = tuple(TeamShare(team, "a100", 0, 8, 0, 1.0, 1.0) for team in "ab")
    before = None if used is None else UseBefore(0, equal, used)
    return play(jobs, Circumstances((node("n0"),), shares, Policy(), before))


def test_who_has_used_much_before_the_day_comes_later_in_it():
    jobs = [
        job("along", 8, 60, team="a"),
        job("short", 8, 10, team="b"),
    ]  # in this order, where all else is equal
    waited = {"a first": 60 * 60 / 2, "b first": 10 * 60 / 2}
    assert fair_history(jobs, None).report["mean_queue_s"] == waited["a first"]
    assert fair_history(jobs, {"a": 0.0, "b": 1e9}).report["mean_queue_s"] == waited["a first"]
    assert fair_history(jobs, {"a": 1e9, "b": 0.0}).report["mean_queue_s"] == waited["b first"]


def test_what_a_team_is_given_in_the_day_counts_in_the_day():
    jobs = [job("a1", 8, 600, team="a"), job("a2", 8, 60, at=1, team="a"), job("b1", 8, 10, at=2, team="b")]
    a_first, b_first = (599 + 658) * 60 / 3, (598 + 609) * 60 / 3
    assert fair_history(jobs, {}).report["mean_queue_s"] == b_first
    assert fair_history(jobs, None).report["mean_queue_s"] == a_first
    assert (
        fair_history(jobs, {"b": 1e12}).report["mean_queue_s"] == a_first
    )  # far more than a day can make good


def test_use_fades_while_the_day_is_played():
    """What "b" had used is a half less each week: after thirty the two hours that "a" holds first are more."""
    weeks, week = 30, 7 * 24 * 60
    jobs = [job("a1", 8, 120, at=weeks * week, team="a")]
    jobs += [job("a2", 8, 60, at=weeks * week + 1, team="a"), job("b1", 8, 10, at=weeks * week + 2, team="b")]
    a_first, b_first = (119 + 178) * 60 / 3, (118 + 129) * 60 / 3
    assert fair_history(jobs, {"b": 1e12}).report["mean_queue_s"] == b_first
    jobs = [replace(each, submit_ms=each.submit_ms - weeks * week * MINUTE_MS) for each in jobs]
    assert fair_history(jobs, {"b": 1e12}).report["mean_queue_s"] == a_first
