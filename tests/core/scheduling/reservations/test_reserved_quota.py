"""What a team's maximum will have room for is kept for the first of its jobs that waits for it."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.decisions import WaitCode
from platform_core.scheduling.engine import decide, plan, reserve_places
from platform_core.scheduling.estimates import remaining_ms
from platform_core.scheduling.forecast.changes import changes
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.clusters import TEAMS, snapshots
from tests.core.scheduling.reservations.test_nodes import with_times
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

HOUR_MS = 60 * MINUTE_MS
EASY = Policy("first_come", reservations=1)


def first(name: str, gpus: int, *, whose: str = "vision", minutes: int = 9) -> PendingJob:
    """`minutes`: that it has waited."""
    return pending(name, gpus, team=whose, submitted_ms=NOW_MS - minutes * MINUTE_MS, max_runtime_ms=HOUR_MS)


def later(name: str, gpus: int, *, hours: int, whose: str = "vision") -> PendingJob:
    return pending(name, gpus, team=whose, max_runtime_ms=hours * HOUR_MS)


def held_until(hours: int, *, slots: int = 4, whose: str = "vision", where: str = "a") -> RunningJob:
    ends_ms = NOW_MS + hours * HOUR_MS
    return running(f"old-{where}", {where: range(slots)}, team=whose, expected_end_ms=ends_ms)


def at_its_maximum(*queue: PendingJob, maximum: int = 6, guaranteed: int = 0) -> Snapshot:
    """Vision holds four of the six that it may, for two hours; so many slots are free that its maximum decides."""
    return snapshot(
        [node("a", free=4), node("b")],
        queue,
        held=[held_until(2)],
        teams=[team(maximum=maximum, used=4, guaranteed=guaranteed), team("nlp")],
    )


def started(situation: Snapshot, policy: Policy = EASY) -> set[str]:
    return {placement.job_id.removeprefix("job-") for placement in plan(situation, policy).placements}


def quota_kept(situation: Snapshot, policy: Policy = EASY) -> dict[str, int]:
    """From when on, in hours."""
    decided = decide(situation, policy)
    reserve_places(decided, policy)
    kept = [each for whose in TEAMS for each in decided.state.quota.reservations_of(whose, "a100")]
    return {each.job_id.removeprefix("job-"): (each.start_ms - NOW_MS) // HOUR_MS for each in kept}


def test_a_smaller_job_of_the_team_passes_if_it_ends_before_there_is_room_for_the_first() -> None:
    queue = [first("big", 6), later("long", 2, hours=3), later("short", 2, hours=2)]
    assert started(at_its_maximum(*queue)) == {"short"}


def test_without_kept_places_nor_is_quota() -> None:
    queue = [first("big", 6), later("long", 2, hours=3)]
    assert started(at_its_maximum(*queue), Policy("first_come")) == {"long"}


def test_longer_ones_pass_as_far_as_the_maximum_has_room_beside_it() -> None:
    queue = [first("big", 6), *[later(name, 1, hours=3) for name in ("one", "two", "who-is-too-much")]]
    assert started(at_its_maximum(*queue, maximum=8)) == {"one", "two"}


def test_another_team_is_not_concerned() -> None:
    queue = [first("big", 6), later("long", 8, hours=9, whose="nlp")]
    assert started(at_its_maximum(*queue)) == {"long"}


def test_the_first_of_all_has_a_place_kept_too_from_when_there_is_room() -> None:
    situation = at_its_maximum(first("big", 6))
    (kept,) = reserve_places(decide(situation, EASY), EASY)
    assert (kept.job_id, kept.start_ms) == ("job-big", NOW_MS + 2 * HOUR_MS)
    situation = replace(situation, nodes=situation.nodes[:1])
    theirs = later("long", 4, hours=3, whose="nlp")
    assert started(replace(situation, pending=(*situation.pending, theirs))) == set()


def test_behind_another_only_the_quota_is_kept_so_that_whoever_has_quota_has_the_places() -> None:
    gang = first("gang", 16, whose="nlp", minutes=60)
    queue = [gang, first("big", 6), later("long", 2, hours=3), first("next", 12, whose="nlp")]
    situation, two = at_its_maximum(*queue), replace(EASY, reservations=2)
    assert [kept.job_id for kept in reserve_places(decide(situation, two), two)] == ["job-gang", "job-next"]
    assert quota_kept(situation, two).get("big") == 2
    assert "long" not in started(situation, two)


def test_a_place_is_kept_with_the_quota_it_will_need() -> None:
    """There is room for both now, but not when the first has its place."""
    queue = [first("big", 16), later("long", 2, hours=3), later("short", 2, hours=2)]
    teams = [team(maximum=16), team("nlp", used=4)]
    nodes = [node("a", free=4), node("b"), node("c", gpu_type="a100")]
    held = [held_until(2, whose="nlp"), held_until(2, whose="nlp", where="c", slots=8)]
    nodes[2] = replace(nodes[2], free_slots=())
    situation = snapshot(nodes, queue, held=held, teams=teams)
    assert quota_kept(situation) == {"big": 2}
    wide = replace(situation, nodes=(*nodes, node("d", slots=2)))
    assert started(wide) == {"short"}
    assert started(replace(wide, teams=(team(maximum=18), team("nlp", used=4)))) == {"short", "long"}


def test_there_is_room_when_whoever_starts_in_this_round_has_ended_too() -> None:
    assert quota_kept(at_its_maximum(first("early", 2, minutes=30), first("big", 6))) == {"big": 2}


def test_what_is_kept_for_two_of_a_team_counts_for_whoever_passes_both() -> None:
    """Four from 2 h on and three from 1 h until 4 h: of the eight one is left."""
    nodes = [node("a", free=0), node("b", slots=4, free=0), node("c", slots=4)]
    held = [held_until(2, slots=8, whose="nlp"), held_until(1, whose="nlp", where="b")]
    four = replace(first("four", 4), excluded_nodes=("node-b", "node-c"))
    three = replace(first("three", 3), excluded_nodes=("node-a", "node-c"), max_runtime_ms=3 * HOUR_MS)
    queue = [four, three, later("one", 1, hours=9), later("two-are-too-many", 1, hours=9)]
    situation = snapshot(nodes, queue, held=held, teams=[team(maximum=8), team("nlp", used=12)])
    two = replace(EASY, reservations=2)
    assert quota_kept(situation, two) == {"four": 2, "three": 1}
    assert started(situation, two) == {"one"}


def test_a_later_place_waits_for_the_quota_that_an_earlier_one_leaves() -> None:
    """There are slots for it after 90 min and beside the first, but until that has ended no quota."""
    held = [
        held_until(2),
        running("other", {"a": range(4, 8)}, team="nlp", expected_end_ms=NOW_MS + 90 * MINUTE_MS),
    ]
    queue = [first("big", 6), later("small", 1, hours=1)]
    situation = snapshot(
        [node("a", free=0)], queue, held=held, teams=[team(maximum=6, used=4), team("nlp", used=4)]
    )
    assert quota_kept(situation, replace(EASY, reservations=2)) == {"big": 2, "small": 3}


def test_only_the_first_of_a_team_holds_others_back() -> None:
    gang = first("gang", 16, whose="nlp", minutes=60)
    queue = [gang, first("big", 5, minutes=30), first("second", 6), later("beside", 1, hours=3)]
    situation = at_its_maximum(*queue)
    assert list(quota_kept(situation)) == ["gang", "big"]


def test_what_a_job_gives_up_that_was_told_to_stop_is_there_in_a_moment() -> None:
    situation = at_its_maximum(first("big", 6), later("short", 2, hours=1))
    leaving = tuple(replace(job, stopping=True, preemptible=False) for job in situation.running)
    situation = replace(situation, running=leaving)
    assert started(situation) == set()
    waits = {wait.job_id: wait.sentence for wait in plan(situation, EASY).waits}
    assert waits["job-big"].endswith("stopping jobs release slots for it")


def test_nothing_is_kept_for_what_can_never_start() -> None:
    gang, beyond, too_large = (
        first("gang", 16, whose="nlp", minutes=60),
        first("beyond", 7),
        first("large", 24),
    )
    assert quota_kept(at_its_maximum(beyond)) == {}
    assert quota_kept(at_its_maximum(too_large, maximum=25)) == {}
    assert quota_kept(at_its_maximum(gang, beyond)) == {"gang": 2}
    assert quota_kept(at_its_maximum(gang, too_large, maximum=25)) == {"gang": 2}
    assert started(at_its_maximum(beyond, later("long", 2, hours=3))) == {"long"}


def test_an_elastic_job_waits_for_as_much_as_it_can_begin_with() -> None:
    stretchy = replace(first("stretchy", 9), min_gpus=5)
    assert quota_kept(at_its_maximum(stretchy)) == {"stretchy": 2}


def test_a_job_of_the_team_does_not_grow_into_what_is_kept() -> None:
    asks = replace(first("old-a", 6), min_gpus=4)
    situation = at_its_maximum(first("big", 6))
    grows = replace(
        situation.running[0], started_ms=NOW_MS - 9 * HOUR_MS, expected_end_ms=NOW_MS + 99 * HOUR_MS,
        num_gpus=6, min_gpus=4, asks=asks, saves_when_stopped=True,
    )  # fmt: skip
    situation = replace(situation, running=(grows,))
    elastic = replace(EASY, elastic=True)
    assert plan(situation, elastic).stops == ()
    assert [stop.to_gpus for stop in plan(replace(situation, pending=()), elastic).stops] == [6]


def test_whoever_is_within_the_guarantee_does_not_use_up_what_an_earlier_one_of_the_team_waits_for() -> None:
    """The first can only borrow, so they go before it; they are of its own team, so it would wait for ever."""
    own = Policy("first_come", reservations=1, reclaims=True)
    queue = [first("big", 6), later("long", 1, hours=3), later("short", 1, hours=2)]
    assert started(at_its_maximum(*queue, guaranteed=5), own) == {"short"}


def test_nor_is_that_hidden_by_one_that_can_never_start() -> None:
    own = Policy("first_come", reservations=1, reclaims=True)
    queue = [
        first("never", 7, minutes=30),
        first("big", 6),
        later("long", 1, hours=3),
        later("short", 1, hours=2),
    ]
    assert started(at_its_maximum(*queue, guaranteed=5), own) == {"short"}


def test_nor_whoever_comes_before_the_first_that_waits_for_quota() -> None:
    """What could start at once is behind nobody of its team."""
    own = Policy("first_come", reservations=1, reclaims=True)
    queue = [first("big", 6), first("long", 1, minutes=30)]
    queue[1] = replace(queue[1], max_runtime_ms=9 * HOUR_MS)
    assert started(at_its_maximum(*queue, guaranteed=5), own) == {"long"}


def test_both_are_told_when_there_will_be_room_and_for_whom() -> None:
    queue = [first("big", 6), later("long", 2, hours=3), later("huge", 5, hours=3)]
    big, huge, long = plan(at_its_maximum(*queue), EASY).waits
    assert {each.code for each in (big, long, huge)} == {WaitCode.QUOTA}
    assert big.sentence == (
        "would exceed quota: 10/6 GPUs of a100; team vision holds 4, a holds 4 for job-old-a; "
        "by the time limits of running jobs, quota is free in 2 h"
    )
    assert dict(big.numbers)["quota_ms"] == NOW_MS + 2 * HOUR_MS
    assert long.sentence == (
        "needs 2 GPUs of a100; team vision holds 4/6, and the rest is reserved for job-big, expected to start in 2 h: "
        "only jobs that end before then may start"
    )
    assert huge.sentence == (
        "would exceed quota: 9/6 GPUs of a100; team vision holds 4, a holds 4 for job-old-a; "
        "by the time limits of running jobs, quota is free in 2 h for job-big, which is ahead of it"
    )
    assert dict(huge.numbers)["quota_for"] == "job-big"


def test_a_shorter_limit_is_what_would_start_one_that_is_held_back() -> None:
    situation = at_its_maximum(first("big", 6), later("long", 2, hours=3))
    found = {change.field: change.value for change in changes(situation, EASY, "job-long")}
    assert found["max_runtime_ms"] == 108 * MINUTE_MS
    assert found["maximum"] == 12


@given(snapshot=snapshots(), reservations=st.integers(1, 4), data=st.data())
def test_what_runs_starts_and_is_kept_never_exceeds_a_maximum(
    snapshot: Snapshot, reservations: int, data: st.DataObject
) -> None:
    timed = with_times(snapshot, data)
    policy = Policy("first_come", reservations=reservations)
    decided = decide(timed, policy)
    reserve_places(decided, policy)
    for share in timed.teams:
        mine = (share.team, share.gpu_type)
        spans = [
            (NOW_MS, job.expected_end_ms or 0, job.held)
            for job in timed.running
            if (job.team, job.gpu_type) == mine
        ]
        spans += [
            (NOW_MS, NOW_MS + remaining_ms(job), job.num_gpus)
            for job, _ in decided.started
            if (job.team, job.gpu_type) == mine
        ]
        kept = decided.state.quota.reservations_of(*mine)
        spans += [(each.start_ms, each.end_ms, each.gpus) for each in kept]
        for at_ms, _, _ in spans:
            assert sum(gpus for begin, end, gpus in spans if begin <= at_ms < end) <= share.maximum
