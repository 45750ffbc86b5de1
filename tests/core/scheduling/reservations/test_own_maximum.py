"""A team that holds its maximum makes room among its own jobs."""

from __future__ import annotations

from dataclasses import replace

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.ordering.test_size_and_wait import busy
from tests.core.scheduling.situations import MINUTE_MS, node, pending, snapshot, team

OURS = Policy("size_and_wait", evicts=True, migrates=True, reservations=1, reclaims=True)


def short(name: str = "short", gpus: int = 4) -> PendingJob:
    return pending(name, gpus, max_runtime_ms=10 * MINUTE_MS)


def long(name: str, where: str, whose: str = "vision", slots: int = 4) -> RunningJob:
    return replace(busy(name, {where: range(slots)}, hours=90), team=whose)


def at_its_maximum(
    *queue: PendingJob, held: tuple[RunningJob, ...], free: int, guaranteed: int = 0
) -> Snapshot:
    """Vision may hold four and does; nlp holds what else is held."""
    nodes = [node("a", slots=4, free=0), node("b", slots=4, free=free)]
    teams = [team(maximum=4, used=4, guaranteed=guaranteed), team("nlp", used=4 - free)]
    return snapshot(nodes, queue, held=held, teams=teams)


def test_it_stops_one_of_its_own_jobs_though_other_slots_are_free() -> None:
    now = at_its_maximum(short(), held=(long("own", "a"),), free=4)
    assert plan(now, OURS).preemptions == ("job-own",)


def test_it_does_so_within_its_guarantee_too() -> None:
    now = at_its_maximum(short(), held=(long("own", "a"), long("other", "b", "nlp")), free=0, guaranteed=4)
    assert plan(now, OURS).preemptions == ("job-own",)


def test_another_team_makes_no_room_for_one_that_holds_its_maximum() -> None:
    """Its own job may not be stopped, and what others give up it may not have."""
    own = replace(long("own", "a"), preemptible=False)
    now = at_its_maximum(short(), held=(own, long("other", "b", "nlp")), free=0)
    assert plan(now, OURS).preemptions == ()


def test_while_the_stopped_one_saves_nobody_else_is_stopped_for_the_same_job() -> None:
    leaving = replace(long("leaving", "a", slots=2), stopping=True, preemptible=False)
    other = replace(busy("other", {"a": range(2, 4)}, hours=90), team="vision")
    now = at_its_maximum(short(gpus=2), held=(leaving, other), free=4)
    made = plan(now, OURS)
    assert made.preemptions == ()
    assert made.waits[0].sentence.endswith("stopping jobs release slots for it")


def test_a_job_of_the_team_that_fits_no_maximum_of_its_own_stops_nobody() -> None:
    now = at_its_maximum(short(gpus=8), held=(long("own", "a"),), free=4)
    assert plan(now, OURS).preemptions == ()


def test_an_urgent_gang_of_two_nodes_of_a_team_that_holds_both_gets_them() -> None:
    nodes = [node("a", slots=4, free=0), node("b", slots=4, free=0)]
    held = [long("one", "a"), long("two", "b")]
    gang = pending("gang", 8, max_runtime_ms=10 * MINUTE_MS, priority=20)
    now = snapshot(nodes, [gang], held=held, teams=[team(maximum=8, used=8, guaranteed=8)])
    assert set(plan(now, OURS).preemptions) == {"job-one", "job-two"}


def test_what_is_more_than_its_maximum_allows_is_not_counted_as_deserved() -> None:
    """Vision may hold four: its two short jobs of four cannot both have slots, so nlp's long one keeps its own."""
    queue = [short("first"), short("second")]
    now = at_its_maximum(*queue, held=(long("own", "a"), long("other", "b", "nlp")), free=0)
    assert plan(now, OURS).preemptions == ("job-own",)


def test_one_that_only_borrows_stops_nobody_who_goes_first_again_within_the_guarantee() -> None:
    """Its team may hold four and is guaranteed one: whoever is stopped for the four takes that one again at once."""
    nodes = [node("a", slots=4, free=3)]
    now = snapshot(nodes, [short()], held=[long("own", "a", slots=1)], teams=[team(maximum=4, used=1)])
    assert plan(now, OURS).preemptions == ("job-own",)
    guaranteed = replace(now, teams=(team(maximum=4, used=1, guaranteed=1),))
    assert plan(guaranteed, OURS).preemptions == ()


def test_a_job_whose_team_has_no_quota_stops_nobody() -> None:
    now = snapshot([node("a", slots=4, free=0)], [short()], held=[long("own", "a")], teams=[])
    assert plan(replace(now, teams=()), OURS).preemptions == ()
