"""The same jobs with other nodes, quotas and policies."""

from platform_core.cluster.snapshot import TeamShare
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
