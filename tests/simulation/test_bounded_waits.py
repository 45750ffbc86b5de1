"""No job waits for ever: the bounds of docs/explanation/wait-bounds.md over random histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from platform_core.cluster.snapshot import Snapshot, TeamShare
from platform_core.scheduling.engine import Decisions, decide
from platform_core.scheduling.ordering.overuse import FORGIVEN_MS
from platform_core.scheduling.policy import PRODUCTION, Policy
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.workload import TraceJob
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS
from tests.core.scheduling.situations import node

FAIR_SHARE = Policy(reservations=4, reclaims=True, elastic=True)
STOPPING = replace(FAIR_SHARE, evicts=True, migrates=True, least_run_ms=5 * MINUTE_MS)
TEAMS = ("a", "b", "c")
SLOTS = 8
RESTART_MS = MINUTE_MS


@dataclass(frozen=True)
class Story:
    jobs: list[TraceJob]
    used: list[tuple[float, ...]]  # shares used by the teams, another line each day
    most: tuple[int, ...] = (1_000, 1_000, 1_000)  # what each team may hold


def starts(story: Story, policy: Policy = FAIR_SHARE) -> dict[str, list[int]]:
    """When each job starts, where the teams have used what the story says, whatever their jobs hold."""
    begun: dict[str, list[int]] = {job.id: [] for job in story.jobs}

    def judged(snapshot: Snapshot, chosen: Policy) -> Decisions:
        used = dict(zip(TEAMS, story.used[snapshot.now_ms // DAY_MS % len(story.used)], strict=True))
        shares = tuple(replace(share, usage_share=used[share.team]) for share in snapshot.teams)
        decided = decide(replace(snapshot, teams=shares), chosen)
        for job, _ in decided.started:
            begun[job.id].append(snapshot.now_ms)
        return decided

    teams = [
        TeamShare(team, "a100", 0, most, 0, 1.0, 1.0) for team, most in zip(TEAMS, story.most, strict=True)
    ]
    nodes = [node("n0", slots=SLOTS // 2), node("n1", slots=SLOTS // 2)]
    Cluster(nodes, story.jobs, policy, shares=teams, decider=judged).run()
    return begun


def beyond_the_bound(jobs: Sequence[TraceJob], begun: dict[str, list[int]]) -> list[str]:
    """Once a job and all more urgent ones have come and waited for a week, nobody passes it any more: so it starts
    after those that are in front of it then, each of which waits for the longest limit at most whenever it starts."""
    longest_ms = max(job.limit_ms for job in jobs) + RESTART_MS
    late = []
    for job in jobs:
        urgent = [other.submit_ms for other in jobs if other.priority < job.priority]
        settled_ms, begun_ms = max([job.submit_ms, *urgent]) + FORGIVEN_MS, begun[job.id][0]
        ahead = [begun[other.id] for other in jobs if _place(other) < _place(job)]
        before = sum(settled_ms < at_ms <= begun_ms for times in ahead for at_ms in times)
        if begun_ms > settled_ms + (before + 1) * longest_ms:
            late.append(job.id)
    return late


def _place(job: TraceJob) -> tuple[int, int, str]:
    return (job.priority, job.submit_ms, job.id)


@st.composite
def stories(draw: st.DrawFn, priorities: tuple[int, ...] = (50, 50, 50, 30)) -> Story:
    """Gangs among streams of jobs that keep the cluster full for weeks, and teams that have used whatever.

    What is more urgent than the gangs ends within days. Of each team no job asks for more than it may hold.
    """
    jobs, most = [], draw(st.tuples(*[st.sampled_from([4, 6, SLOTS, SLOTS])] * len(TEAMS)))
    for number in range(draw(st.integers(1, 3))):
        gpus, hours, every = (
            draw(st.sampled_from([1, 2, 4, 8])),
            draw(st.integers(4, 12)),
            draw(st.integers(3, 12)),
        )
        team, priority = draw(st.sampled_from(TEAMS)), draw(st.sampled_from(priorities))
        days = draw(st.integers(5, 20)) if priority >= 50 else draw(st.integers(1, 5))
        jobs += [
            hour(f"s{number}-{at_h:03}", at_h, gpus, hours, team, priority)
            for at_h in range(0, 24 * days, every)
        ]
    for number in range(draw(st.integers(1, 3))):
        at_h, gpus = draw(st.integers(0, 100)), draw(st.sampled_from([4, 8]))
        jobs.append(hour(f"g{number}", at_h, gpus, draw(st.integers(1, 12)), draw(st.sampled_from(TEAMS))))
    overstated, may = draw(st.sampled_from([1, 1, 3])), dict(zip(TEAMS, most, strict=True))
    jobs = [
        replace(job, limit_ms=job.duration_ms * overstated, gpus=min(job.gpus, may[job.team])) for job in jobs
    ]
    used = st.tuples(*[st.sampled_from([0.5, 1.0, 1.5, 3.0, 9.0])] * len(TEAMS))
    return Story(jobs, draw(st.lists(used, min_size=1, max_size=5)), most)


def hour(name: str, at_h: int, gpus: int, hours: int, team: str, priority: int = 50) -> TraceJob:
    return TraceJob(name, at_h * HOUR_MS, gpus, hours * HOUR_MS, hours * HOUR_MS, team, priority)


@settings(max_examples=60)
@given(stories())
def test_nobody_waits_beyond_the_bound_whatever_the_teams_have_used(story: Story) -> None:
    assert beyond_the_bound(story.jobs, starts(story)) == []


@settings(max_examples=60)
@given(stories(priorities=(50, 50, 30, 45, 60, 60)))
def test_nor_where_the_more_urgent_stop_others(story: Story) -> None:
    assert beyond_the_bound(story.jobs, starts(story, STOPPING)) == []


def stream(team: str, priority: int = 50) -> list[TraceJob]:
    """Twice as much as the cluster can do, for forty days."""
    return [hour(f"s{number:03}", 12 * number, 8, 24, team, priority) for number in range(80)]


def test_the_gang_of_a_team_beyond_its_share_starts_though_others_never_stop_sending_jobs() -> None:
    gang = hour("gang", 1, 8, 24, "a")
    story = Story([gang, *stream("b")], [(3.0, 0.5, 1.0)])
    begun = starts(story)
    assert 5 * DAY_MS < begun["gang"][0] <= FORGIVEN_MS + 2 * DAY_MS, (
        "its team's use counts, but not for ever"
    )
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
    assert beyond_the_bound(story.jobs, starts(story, replace(FAIR_SHARE, reservations=0))) == ["gang"]
    assert starts(story)["gang"][0] < DAY_MS


def test_smaller_jobs_of_its_own_team_do_not_use_up_for_ever_what_its_maximum_has() -> None:
    """It may hold half of the cluster, and the other half is free. Two of them hold that, and never end together."""
    streams = [hour(f"s{number:03}", 4 * number, 2, 8, "a") for number in range(240)]
    gang = hour("gang", 1, 4, 1, "a")
    story = Story([gang, *streams], [(1.0, 1.0, 1.0)], most=(4, SLOTS, SLOTS))
    begun = starts(story)
    assert begun["gang"][0] <= 12 * HOUR_MS
    assert beyond_the_bound(story.jobs, begun) == []


def longest_as_the_first(story: Story, policy: Policy) -> int:
    """The longest that any job waits after it has become the first in the order, and while it stays that."""
    since: dict[str, int] = {}
    longest_ms = 0

    def judged(snapshot: Snapshot, chosen: Policy) -> Decisions:
        nonlocal longest_ms
        used = dict(zip(TEAMS, story.used[snapshot.now_ms // DAY_MS % len(story.used)], strict=True))
        shares = tuple(replace(share, usage_share=used[share.team]) for share in snapshot.teams)
        decided = decide(replace(snapshot, teams=shares), chosen)
        first = decided.order[0] if decided.order else ""
        for gone in since.keys() - {first}:
            del since[gone]
        begun_ms = since.setdefault(first, snapshot.now_ms)
        longest_ms = max(longest_ms, snapshot.now_ms - begun_ms)
        return decided

    teams = [
        TeamShare(team, "a100", 0, most, 0, 1.0, 1.0) for team, most in zip(TEAMS, story.most, strict=True)
    ]
    nodes = [node("n0", slots=SLOTS // 2), node("n1", slots=SLOTS // 2)]
    Cluster(nodes, story.jobs, policy, shares=teams, decider=judged).run()
    return longest_ms


@settings(max_examples=60)
@given(stories(priorities=(50, 50, 30, 45, 60, 60)))
def test_with_what_production_starts_with_the_first_in_order_starts_within_the_longest_limit(
    story: Story,
) -> None:
    """And whoever has waited for a week and two backlogs goes before every newcomer: see test_size_and_wait."""
    longest_ms = max(job.limit_ms for job in story.jobs) + RESTART_MS
    assert longest_as_the_first(story, PRODUCTION) <= longest_ms


def test_with_what_production_starts_with_the_gang_of_a_team_beyond_its_share_starts() -> None:
    story = Story([hour("gang", 1, 8, 24, "a"), *stream("b")], [(9.0, 0.5, 1.0)])
    assert starts(story, PRODUCTION)["gang"][0] <= FORGIVEN_MS + 2 * DAY_MS


def test_with_what_production_starts_with_the_first_in_order_is_not_kept_out_by_its_own_team() -> None:
    """It may hold all that its team may; two smaller jobs of the team hold that, and never end together."""
    own = [hour(f"c{number:02}", 4 * number, 2, 5, "c") for number in range(30)]
    others = [hour(f"a{number:02}", 4 * number, 2, 7, "a") for number in range(30)]
    jobs = [replace(job, limit_ms=3 * job.duration_ms) for job in (*own, *others, hour("gang", 1, 4, 1, "c"))]
    story = Story(jobs, [(0.5, 0.5, 0.5)], most=(4, 4, 4))
    assert starts(story, PRODUCTION)["gang"][0] <= 5 * HOUR_MS
