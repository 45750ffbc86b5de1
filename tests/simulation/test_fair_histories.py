"""Fairness over whole histories: what holds after every round, whatever comes when."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from platform_core.cluster.snapshot import Snapshot, TeamShare
from platform_core.scheduling.decisions import StopKind
from platform_core.scheduling.engine import Decisions, decide, reserve_places
from platform_core.scheduling.policy import Policy
from platform_core.simulation.cluster import Cluster
from platform_core.simulation.workload import TraceJob
from tests.core.scheduling.situations import node

LEAST_RUN_MS = 5 * 60_000
SLOTS = 8
POLICIES = {
    "as production": Policy(reservations=2, reclaims=True, elastic=True),
    "ours": Policy("size_and_wait", reservations=1, evicts=True, migrates=True, reclaims=True),
    "shortest first": Policy("shortest_remaining", evicts=True, reclaims=True),
}


@dataclass(frozen=True)
class Story:
    jobs: list[TraceJob]
    shares: list[TeamShare]


@st.composite
def stories(draw: st.DrawFn, sizes: tuple[int, ...] = (1,)) -> Story:
    """Jobs of three teams on two nodes of four; the guarantees can all be kept at once."""
    left, shares = SLOTS, []
    for team in ("a", "b", "c"):
        own = draw(st.integers(0, left))
        left -= own
        most = draw(st.sampled_from([max(own, 4), SLOTS]))
        shares.append(TeamShare(team, "a100", own, most, 0, 1.0, 1.0))
    jobs = []
    for number in range(draw(st.integers(1, 14))):
        duration_ms = draw(st.integers(1, 4_000)) * 1_000
        jobs.append(
            TraceJob(
                f"j{number:02}", draw(st.integers(0, 3_000)) * 1_000, draw(st.sampled_from(sizes)), duration_ms,
                duration_ms * draw(st.sampled_from([1, 3])), draw(st.sampled_from("abc")),
                draw(st.sampled_from([20, 50, 50, 80])),
            )
        )  # fmt: skip
    return Story(jobs, shares)


def _job(name: str, at_s: int, gpus: int, duration_s: int, team: str = "a", priority: int = 50) -> TraceJob:
    return TraceJob(name, at_s * 1_000, gpus, duration_s * 1_000, duration_s * 1_000, team, priority)


def play(story: Story, policy: Policy, watch: object) -> Cluster:
    def judged(snapshot: Snapshot, chosen: Policy) -> Decisions:
        decided = decide(snapshot, chosen)
        watch(snapshot, decided)  # type: ignore[operator]
        return decided

    nodes = [node("n0", slots=4), node("n1", slots=4)]
    cluster = Cluster(nodes, story.jobs, policy, shares=story.shares, decider=judged)
    cluster.play()
    return cluster


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
@settings(max_examples=60)
@given(story=stories())
def test_every_team_has_its_guarantee_as_soon_as_borrowers_have_had_their_least_run(
    policy: Policy, story: Story
) -> None:
    """The incentive to share: at every moment a team holds at least what it would have alone, but for that wait."""

    def watch(snapshot: Snapshot, decided: Decisions) -> None:
        if decided.stops:
            return  # the next round, at the same moment, is the one that counts
        waiting = {job.team for job in decided.waiting}
        held = {share.team: share.used for share in snapshot.teams}
        for job, _ in decided.started:
            held[job.team] += 1
        own = {share.team: share.guaranteed for share in snapshot.teams}
        owed = {team for team in waiting if held[team] < own[team]}
        for team in owed:
            settled = [
                job.id
                for job in snapshot.running
                if job.team != team
                and held[job.team] > own[job.team]
                and snapshot.now_ms - job.started_ms >= LEAST_RUN_MS
            ]
            assert settled == []

    play(story, policy, watch)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
@settings(max_examples=60)
@given(story=stories(sizes=(1, 2, 4, 8)))
def test_no_team_holds_more_than_its_maximum_or_loses_its_own_to_others(policy: Policy, story: Story) -> None:
    def watch(snapshot: Snapshot, decided: Decisions) -> None:
        queue = {job.id: job for job in snapshot.pending}
        held = {job.id: job for job in snapshot.running}
        for share in snapshot.teams:
            started = sum(job.num_gpus for job, _ in decided.started if job.team == share.team)
            assert share.used + started <= share.maximum
            lost = [
                held[stop.job_id].held
                for stop in decided.stops
                if stop.kind in (StopKind.EVICTED, StopKind.RECLAIMED)
                and held[stop.job_id].team == share.team != queue[stop.for_job].team
            ]
            kept = share.used - sum(lost)
            # The last one stopped may be larger than what was still borrowed; before it something was.
            assert not lost or kept >= share.guaranteed or kept + lost[-1] > share.guaranteed

    cluster = play(story, policy, watch)
    most = {share.team: share.maximum for share in story.shares}
    assert cluster.never_started == tuple(sorted(job.id for job in story.jobs if job.gpus > most[job.team]))


def quota_for_an_earlier_one() -> Story:
    """The 2 of team b that are stopped for j01 leave quota for the 4 of b, which stand earlier and begin next."""
    short = [_job(f"j{number:02}", 0, 1, 1, priority=20) for number in (2, 3, 4, 6, 7)]
    long = [_job(f"j{number:02}", 0, 1, 301, priority=20) for number in (5, 9)]
    jobs = [
        replace(_job("j00", 301, 2, 11, priority=20), limit_ms=33_000), _job("j01", 1, 2, 301, "c", 20),
        *short, *long, _job("j08", 1, 4, 1, "b", 20), _job("j10", 0, 2, 302, "b"),
    ]  # fmt: skip
    own = {"a": 4, "b": 0, "c": 0}
    shares = [TeamShare(team, "a100", least, 4, 0, 1.0, 1.0) for team, least in own.items()]
    return Story(sorted(jobs, key=lambda job: job.id), shares)


@pytest.mark.parametrize("policy", POLICIES.values(), ids=list(POLICIES))
@settings(max_examples=60)
@given(story=stories(sizes=(1, 2, 4)))
@example(story=quota_for_an_earlier_one())
def test_whoever_is_stopped_for_a_job_sees_that_or_an_earlier_one_start(policy: Policy, story: Story) -> None:
    """Stability: nobody is stopped for nothing. Moves are left out: what they leave for may be taken meanwhile.

    At the same moment one that stands earlier may be found to have room made too: then its start is what is owed, or
    a place that is kept for it from an earlier time on."""
    policy = replace(policy, migrates=False)
    victims: dict[str, set[str]] = {}
    places: dict[str, int] = {}

    def watch(snapshot: Snapshot, decided: Decisions) -> None:
        begun = {job.id for job, _ in decided.started}
        kept = {place.job_id: place.start_ms for place in reserve_places(decided, policy)}
        sooner = {job for job, start_ms in kept.items() if job in places and start_ms < places[job]}
        for for_job, stopped in victims.items():
            before = set(decided.order[: decided.order.index(for_job) + 1])
            assert before & (begun - stopped | sooner | {stop.for_job for stop in decided.stops})
        victims.clear()
        places.clear()
        places.update(kept)
        for stop in decided.stops:
            if stop.for_job in decided.order:
                victims.setdefault(stop.for_job, set()).add(stop.job_id)

    play(story, policy, watch)


@settings(max_examples=60)
@given(story=stories(sizes=(1, 2, 4, 8)))
def test_a_place_that_is_kept_for_the_first_is_never_put_off(story: Story) -> None:
    """No starvation: the head of the queue starts when it was told or earlier, and so does the next head."""
    policy = Policy("first_come", reservations=1)
    shares = [replace(share, maximum=1_000) for share in story.shares]
    told: dict[str, int] = {}
    started: dict[str, int] = {}

    def watch(snapshot: Snapshot, decided: Decisions) -> None:
        for job, _ in decided.started:
            started[job.id] = snapshot.now_ms
        for kept in reserve_places(decided, policy):
            assert kept.start_ms <= told.get(kept.job_id, kept.start_ms)
            told[kept.job_id] = kept.start_ms

    play(Story(story.jobs, shares), policy, watch)
    assert all(started[job_id] <= at_ms for job_id, at_ms in told.items())
    bound_ms = max(job.submit_ms for job in story.jobs) + sum(job.limit_ms for job in story.jobs)
    assert all(at_ms <= bound_ms for at_ms in started.values())


def _story(*jobs: TraceJob, a: int = 0, b: int = 0) -> Story:
    shares = [TeamShare(team, "a100", own, 1_000, 0, 1.0, 1.0) for team, own in (("a", a), ("b", b))]
    return Story(list(jobs), shares)


def _starts(story: Story, policy: Policy) -> dict[str, list[int]]:
    """At which seconds each job started."""
    found: dict[str, list[int]] = {job.id: [] for job in story.jobs}

    def watch(snapshot: Snapshot, decided: Decisions) -> None:
        for job, _ in decided.started:
            found[job.id].append(snapshot.now_ms // 1_000)

    play(story, policy, watch)
    return found


def test_every_team_has_its_guarantee_in_a_busy_history() -> None:
    borrowing = [_job(f"b{number}", 0, 1, 9_000, "b") for number in range(8)]
    starts = _starts(_story(*borrowing, _job("mine", 600, 1, 60), a=4, b=4), POLICIES["as production"])
    assert starts["mine"] == [600]


def test_what_was_reclaimed_is_not_taken_again_by_the_borrower() -> None:
    """The borrower is more urgent, and yet it waits until the owner has done."""
    story = _story(_job("urgent", 0, 4, 9_000, "b", 0), _job("other", 0, 4, 9_000, "b", 0), a=4)
    story.jobs.append(_job("mine", 600, 4, 60, priority=100))
    starts = _starts(story, POLICIES["as production"])
    assert starts["mine"] == [600]
    assert sorted(starts["urgent"] + starts["other"]) == [0, 0, 660]


def test_the_gang_at_the_head_starts_when_it_was_told() -> None:
    stream = [_job(f"s{number}", number * 50, 4, 100) for number in range(10)]
    starts = _starts(_story(*stream, _job("gang", 60, 8, 10)), Policy("first_come", reservations=1))
    assert starts["gang"] == [150]
