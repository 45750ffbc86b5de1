"""No job of production's default waits for ever: the bound of docs/scheduling.md over random histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.cluster.snapshot import Snapshot, TeamShare
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.ordering.priority_fair_share import FORGIVEN_MS
from platform_core.scheduling.policy import Policy
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.workload import TraceJob
from platform_core.units import DAY_MS, HOUR_MS
from tests.core.scheduling.situations import node

PRODUCTION = Policy(reservations=4, reclaims=True, elastic=True)
TEAMS = ("a", "b", "c")


@dataclass(frozen=True)
class Story:
    jobs: list[TraceJob]
    used: list[tuple[float, ...]]  # shares used by the teams, another line each day


def starts(story: Story, policy: Policy = PRODUCTION) -> dict[str, int]:
    """When each job starts, where the teams have used what the story says, whatever their jobs hold."""
    begun: dict[str, int] = {}

    def judged(snapshot: Snapshot, chosen: Policy) -> Decisions:
        used = dict(zip(TEAMS, story.used[snapshot.now_ms // DAY_MS % len(story.used)], strict=True))
        shares = tuple(replace(share, usage_share=used[share.team]) for share in snapshot.teams)
        decided = decide(replace(snapshot, teams=shares), chosen)
        for job, _ in decided.started:
            begun[job.id] = snapshot.now_ms
        return decided

    teams = [TeamShare(team, "a100", 0, 1_000, 0, 1.0, 1.0) for team in TEAMS]
    Cluster(
        [node("n0", slots=4), node("n1", slots=4)], story.jobs, policy, shares=teams, decider=judged
    ).run()
    return begun


def beyond_the_bound(jobs: Sequence[TraceJob], begun: dict[str, int]) -> list[str]:
    """Once a job and all more urgent ones have come and waited for a week, nobody passes it any more: so it starts
    after those that are in front of it then, each of which waits for the longest limit at most."""
    longest_ms = max(job.limit_ms for job in jobs)
    late = []
    for job in jobs:
        urgent = [other.submit_ms for other in jobs if other.priority < job.priority]
        settled_ms = max([job.submit_ms, *urgent]) + FORGIVEN_MS
        ahead = sum(_place(other) < _place(job) and begun[other.id] > settled_ms for other in jobs)
        if begun[job.id] > settled_ms + (ahead + 1) * longest_ms:
            late.append(job.id)
    return late


def _place(job: TraceJob) -> tuple[int, int, str]:
    return (job.priority, job.submit_ms, job.id)


@st.composite
def stories(draw: st.DrawFn) -> Story:
    """Gangs among streams of jobs that keep the cluster full for weeks, and teams that have used whatever."""
    jobs = []
    for number in range(draw(st.integers(1, 3))):
        gpus, hours, every = (
            draw(st.sampled_from([2, 4, 8])),
            draw(st.integers(4, 12)),
            draw(st.integers(3, 12)),
        )
        team, priority = draw(st.sampled_from(TEAMS)), draw(st.sampled_from([50, 50, 50, 30]))
        days = draw(st.integers(5, 20)) if priority == 50 else draw(st.integers(1, 5))
        jobs += [
            hour(f"s{number}-{at_h:03}", at_h, gpus, hours, team, priority)
            for at_h in range(0, 24 * days, every)
        ]
    for number in range(draw(st.integers(1, 3))):
        at_h, gpus = draw(st.integers(0, 100)), draw(st.sampled_from([4, 8]))
        jobs.append(hour(f"g{number}", at_h, gpus, draw(st.integers(1, 12)), draw(st.sampled_from(TEAMS))))
    overstated = draw(st.sampled_from([1, 1, 3]))
    jobs = [replace(job, limit_ms=job.duration_ms * overstated) for job in jobs]
    used = st.tuples(*[st.sampled_from([0.5, 1.0, 1.5, 3.0, 9.0])] * len(TEAMS))
    return Story(jobs, draw(st.lists(used, min_size=1, max_size=5)))


def hour(name: str, at_h: int, gpus: int, hours: int, team: str, priority: int = 50) -> TraceJob:
    return TraceJob(name, at_h * HOUR_MS, gpus, hours * HOUR_MS, hours * HOUR_MS, team, priority)


@settings(max_examples=60)
@given(stories())
def test_nobody_waits_beyond_the_bound_whatever_the_teams_have_used(story: Story) -> None:
    assert beyond_the_bound(story.jobs, starts(story)) == []


def stream(team: str, priority: int = 50) -> list[TraceJob]:
    """Twice as much as the cluster can do, for forty days."""
    return [hour(f"s{number:03}", 12 * number, 8, 24, team, priority) for number in range(80)]


def test_the_gang_of_a_team_beyond_its_share_starts_though_others_never_stop_sending_jobs() -> None:
    gang = hour("gang", 1, 8, 24, "a")
    story = Story([gang, *stream("b")], [(3.0, 0.5, 1.0)])
    begun = starts(story)
    assert 5 * DAY_MS < begun["gang"] <= FORGIVEN_MS + 2 * DAY_MS, "its team's use counts, but not for ever"
    assert beyond_the_bound(story.jobs, begun) == []


def test_whoever_is_less_urgent_has_no_bound_while_more_urgent_jobs_keep_coming() -> None:
    """That is what a priority is; from the last of them on it has one."""
    patient = hour("patient", 1, 8, 24, "a", priority=60)
    story = Story([patient, *stream("b", priority=30)], [(1.0, 1.0, 1.0)])
    begun = starts(story)
    assert begun["patient"] == max(begun.values())
    assert beyond_the_bound(story.jobs, begun) == []


def test_without_kept_places_there_is_no_bound() -> None:
    """So the bound is worth something: whatever fits would pass the gang for as long as it comes."""
    small = [hour(f"s{number:03}", 3 * number, 4, 7, "b") for number in range(320)]
    story = Story([hour("gang", 1, 8, 1, "a"), *small], [(1.0, 1.0, 1.0)])
    assert beyond_the_bound(story.jobs, starts(story, replace(PRODUCTION, reservations=0))) == ["gang"]
    assert starts(story)["gang"] < DAY_MS
