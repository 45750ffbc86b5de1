"""Slots are released for a job within its team's guarantee: the team keeps the guarantee for it until it starts."""

from __future__ import annotations

from dataclasses import replace

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot
from platform_core.scheduling.engine import plan
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, running, snapshot, team

RECLAIMS = Policy(reservations=2, reclaims=True)
OWNER, SMALLER = pending("owner", 4), pending("smaller", 1)


def lent(*queue: PendingJob, guaranteed: int = 4, leaving: bool = False) -> Snapshot:
    """Vision holds nothing and is guaranteed four slots; nlp has borrowed `a`, of `b` three are free."""
    borrower = running("borrower", {"a": range(4)}, team="nlp", started_ms=NOW_MS - 60 * MINUTE_MS)
    held: list[RunningJob] = [replace(borrower, stopping=leaving)]
    nodes = [node("a", slots=4, free=0), node("b", slots=4, free=3)]
    teams = [team(maximum=8, used=0, guaranteed=guaranteed), team("nlp", maximum=8, used=4)]
    return snapshot(nodes, queue, held=held, teams=teams)


def test_a_smaller_job_of_the_team_does_not_take_the_claim_from_the_one_that_slots_are_released_for() -> None:
    made = plan(lent(OWNER, SMALLER), RECLAIMS)
    assert made.preemptions == ("job-borrower",)
    assert made.placements == ()
    assert made.waits[1].sentence == (
        "needs 1 GPU of a100; slots are released for job-owner within the guarantee of team vision, which this job "
        "would exceed first"
    )
    assert dict(made.waits[1].numbers)["quota_for"] == "job-owner"


def test_nor_while_they_are_being_released() -> None:
    made = plan(lent(OWNER, SMALLER, leaving=True), RECLAIMS)
    assert (made.preemptions, made.placements) == ((), ())


def test_what_the_guarantee_covers_beside_it_starts() -> None:
    made = plan(lent(OWNER, SMALLER, guaranteed=5), RECLAIMS)
    assert made.preemptions == ("job-borrower",)
    assert [placement.job_id for placement in made.placements] == ["job-smaller"]


def test_jobs_of_other_teams_start() -> None:
    made = plan(lent(OWNER, replace(SMALLER, team="nlp")), RECLAIMS)
    assert [placement.job_id for placement in made.placements] == ["job-smaller"]
