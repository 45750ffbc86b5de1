"""A gang that restarts keeps the slots of its healthy nodes, and goes first for those that it lacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.scheduling.decisions import Plan
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import PRODUCTION, Policy
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.rules import violations
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot

UNTIL_MS = NOW_MS + 5 * MINUTE_MS


def gang(gpus: int, kept: dict[str, int], **changes: object) -> PendingJob:
    slots = tuple((f"node-{name}", count) for name, count in kept.items())
    job = replace(pending("gang", gpus), kept_slots=slots, kept_until_ms=UNTIL_MS)
    return replace(job, **changes)  # type: ignore[arg-type]


def placed(decided: Plan) -> dict[str, set[str]]:
    return {each.job_id: {seat.node for seat in each.members} for each in decided.placements}


def test_others_leave_its_slots_free_during_its_pause() -> None:
    paused = gang(8, {"a": 8}, not_before_ms=NOW_MS + MINUTE_MS)
    waiting = [paused, pending("other", 8, priority=0)]
    assert placed(plan(snapshot([node("a")], waiting))) == {}
    assert placed(plan(snapshot([node("a"), node("b")], waiting))) == {"job-other": {"node-b"}}


def test_others_leave_its_slots_free_while_it_lacks_a_node() -> None:
    waiting = [gang(16, {"a": 8}), pending("other", 8)]
    assert placed(plan(snapshot([node("a")], waiting))) == {}
    assert placed(plan(snapshot([node("a"), node("b")], waiting))) == {"job-gang": {"node-a", "node-b"}}


def test_it_goes_before_jobs_that_waited_longer_but_not_before_more_urgent_ones() -> None:
    older = pending("older", 8, submitted_ms=NOW_MS - 60 * MINUTE_MS)
    nodes = [node("a"), node("b")]
    assert placed(plan(snapshot(nodes, [older, gang(16, {"a": 8})]))) == {"job-gang": {"node-a", "node-b"}}
    urgent = plan(snapshot(nodes, [replace(older, priority=0), gang(16, {"a": 8})]))
    assert placed(urgent) == {"job-older": {"node-b"}}, "what it holds is not for others"


def test_what_it_lacks_is_reserved_for_it() -> None:
    ends = running("old", {"b": range(8)}, expected_end_ms=NOW_MS + 2 * MINUTE_MS)
    busy = [node("a"), node("b", free=0)]
    decided = plan(snapshot(busy, [gang(16, {"a": 8}), pending("long", 8)], held=[ends]), PRODUCTION)
    assert decided.placements == ()
    assert next(wait for wait in decided.waits if wait.job_id == "job-gang").place == ("node-a", "node-b")


def test_its_slots_are_free_for_all_once_its_time_is_over() -> None:
    late = replace(snapshot([node("a")], [gang(16, {"a": 8}), pending("other", 8)]), now_ms=UNTIL_MS)
    assert placed(plan(late)) == {"job-other": {"node-a"}}


def test_slots_of_members_that_have_ended_are_held_while_the_rest_of_the_gang_stops() -> None:
    stopping = replace(
        running("gang", {"b": range(8)}), stopping=True, kept_slots=(("node-a", 8),), kept_until_ms=UNTIL_MS
    )
    busy = snapshot([node("a"), node("b", free=0)], [pending("other", 8)], held=[stopping])
    assert plan(busy).placements == ()


@st.composite
def restarting(draw: st.DrawFn) -> Snapshot:
    """Some of the pending jobs restart, some of them after a pause; they kept slots here and there."""
    known = draw(snapshots())
    names = [each.id for each in known.nodes]
    jobs = []
    for job in known.pending:
        kept = (
            draw(st.lists(st.tuples(st.sampled_from(names), st.integers(1, 4)), max_size=3)) if names else []
        )
        pause_ms = draw(st.sampled_from([0, 0, MINUTE_MS]))
        jobs.append(
            replace(
                job, kept_slots=tuple(dict(kept).items()), kept_until_ms=UNTIL_MS,
                not_before_ms=NOW_MS + pause_ms if pause_ms else 0,
            )
        )  # fmt: skip
    return replace(known, pending=tuple(jobs))


POLICIES = st.sampled_from([Policy(), PRODUCTION, replace(PRODUCTION, evicts=True, migrates=True)])


@given(restarting(), POLICIES)
def test_no_slot_is_given_twice_and_none_that_a_paused_gang_holds(known: Snapshot, policy: Policy) -> None:
    decided = plan(known, policy)
    broken = violations(known, decided)
    assert not broken & {"slot given twice", "slot was not free", "gang not whole"}
    given_to = {each.job_id for each in decided.placements}
    free = Counter({each.id: len(each.free_slots) for each in known.nodes})
    taken = Counter(seat.node for each in decided.placements for seat in each.members for _ in seat.slots)
    paused = sorted((job for job in known.pending if job.not_before_ms > NOW_MS), key=lambda job: job.id)
    assert not given_to & {job.id for job in paused}
    holders = sorted((job for job in known.pending if job.kept_slots), key=lambda job: job.id)
    for job in holders:
        for name, slots in job.kept_slots:
            held = min(slots, free[name])
            free[name] -= held
            if job in paused:
                taken[name] += held
    assert all(taken[each.id] <= len(each.free_slots) for each in known.nodes)


@given(restarting(), POLICIES)
def test_after_its_time_a_plan_is_as_if_nothing_had_been_held(known: Snapshot, policy: Policy) -> None:
    late = replace(known, pending=tuple(replace(job, kept_until_ms=NOW_MS) for job in known.pending))
    never = replace(known, pending=tuple(replace(job, kept_slots=()) for job in known.pending))
    assert plan(late, policy) == plan(never, policy)
