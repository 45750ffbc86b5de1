"""Who is tried first."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from platform_core.cluster.snapshot import PendingJob, Snapshot
from platform_core.quotas.hierarchy import Hierarchy, Sibling
from platform_core.scheduling.engine import plan
from platform_core.scheduling.ordering import ORDERS
from platform_core.scheduling.ordering.keys import as_if_it_waited
from platform_core.scheduling.policy import Policy
from tests.core.scheduling.clusters import snapshots
from tests.core.scheduling.situations import MINUTE_MS, NOW_MS, node, pending, snapshot, team


def order_of(queue: list[PendingJob], policy: Policy | None = None, **more: object) -> list[str]:
    made = snapshot([node("a")], queue, **more)  # type: ignore[arg-type]
    return [job_id.removeprefix("job-") for job_id in plan(made, policy).order]


def test_a_more_urgent_job_goes_first() -> None:
    assert order_of([pending("calm", 1, priority=50), pending("urgent", 1, priority=49)]) == [
        "urgent",
        "calm",
    ]


def test_among_equals_the_earlier_submission_goes_first_and_then_the_smaller_id() -> None:
    late, early = pending("a-late", 1), pending("z-early", 1, submitted_ms=NOW_MS - 1)
    assert order_of([pending("b", 1), late, early]) == ["z-early", "a-late", "b"]


def test_a_team_at_one_and_a_half_shares_loses_25_points() -> None:
    teams = [team("vision", usage_share=1.5), team("nlp", usage_share=1.0)]
    greedy = pending("greedy", 1, team="vision", priority=24)
    assert order_of([greedy, pending("modest", 1, team="nlp", priority=50)], teams=teams) == [
        "greedy",
        "modest",
    ]
    greedy = pending("greedy", 1, team="vision", priority=26)
    assert order_of([greedy, pending("modest", 1, team="nlp", priority=50)], teams=teams) == [
        "modest",
        "greedy",
    ]


def test_teams_of_a_department_that_used_too_much_come_after_those_of_another_and_then_by_their_own_use() -> (
    None
):
    hierarchy = Hierarchy(
        {"research": Sibling(1), "product": Sibling(1)},
        {
            "vision": Sibling(1, "research"), "nlp": Sibling(1, "research"),
            "search": Sibling(1, "product"), "ads": Sibling(1, "product"),
        },
    )  # fmt: skip
    used = {"vision": 8.0, "nlp": 0.0, "search": 0.5, "ads": 1.5}
    teams = [team(name, usage_share=share) for name, share in hierarchy.usage_shares(used).items()]
    # Alone, nlp has used less than anybody.
    assert order_of([pending(name, 1, team=name) for name in used], teams=teams) == [
        "search", "ads", "nlp", "vision",
    ]  # fmt: skip


def test_a_team_below_its_share_wins_nothing() -> None:
    teams = [team("vision", usage_share=0.0), team("nlp", usage_share=1.0)]
    queue = [pending("a", 1, team="nlp"), pending("b", 1, team="vision")]
    assert order_of(queue, teams=teams) == ["a", "b"]


def test_ten_minutes_of_waiting_win_a_point_and_twenty_points_are_the_most() -> None:
    def waiting(minutes: int) -> PendingJob:
        return pending("waiting", 1, waiting_since_ms=NOW_MS - minutes * MINUTE_MS)

    assert order_of([pending("a", 1, priority=49), waiting(9)])[0] == "a"
    assert order_of([pending("a", 1, priority=49), waiting(11)])[0] == "waiting"
    assert order_of([pending("a", 1, priority=31), waiting(100_000)])[0] == "waiting"
    assert order_of([pending("a", 1, priority=29), waiting(100_000)])[0] == "a"


def test_first_come_ignores_priority_and_share() -> None:
    queue = [pending("late", 1, priority=0), pending("early", 1, priority=100, submitted_ms=NOW_MS - 1)]
    assert order_of(queue, Policy(order="first_come")) == ["early", "late"]


def test_an_unknown_ordering_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(ValueError, match=r"'alphabetical'; choose one of first_come, least_attained"):
        Policy(order="alphabetical")


@given(snapshot=snapshots())
def test_the_default_order_follows_its_formula(snapshot: Snapshot) -> None:
    shares = {(share.team, share.gpu_type): share.usage_share for share in snapshot.teams}

    def key(job: PendingJob) -> tuple[float, int, str]:
        over = max(0.0, shares.get((job.team, job.gpu_type), 1.0) - 1) * 50
        waited = (snapshot.now_ms - job.waiting_since_ms) / 60_000
        held_against = over * max(0, 1 - (snapshot.now_ms - job.waiting_since_ms) / (7 * 86_400_000))
        return (job.priority + held_against - min(20, waited / 10), job.submitted_ms, job.id)

    assert list(plan(snapshot).order) == [job.id for job in sorted(snapshot.pending, key=key)]


@pytest.mark.parametrize(
    ("order", "first_queue_ms"),
    [("least_attained_service", 3_250_000), ("least_attained_service_8h", 8 * 60 * MINUTE_MS)],
)
def test_least_attained_service_puts_whoever_has_had_its_first_queue_behind_newcomers(
    order: str, first_queue_ms: int
) -> None:
    veteran = replace(pending("veteran", 4, submitted_ms=NOW_MS - 1), attained_gpu_ms=first_queue_ms)
    young = replace(pending("young", 4, submitted_ms=NOW_MS - 2), attained_gpu_ms=first_queue_ms - 1)
    queue = [veteran, young, pending("new", 1)]
    assert order_of(queue, Policy(order=order)) == ["young", "new", "veteran"]


@pytest.mark.parametrize("order", sorted(ORDERS.keys() - {"size_and_wait"}))
@given(snapshot=snapshots())
def test_a_running_job_stands_where_it_would_if_it_were_stopped_now(order: str, snapshot: Snapshot) -> None:
    keys = ORDERS[order].keys(snapshot)
    as_waiting = as_if_it_waited(keys.waiting, snapshot.now_ms)
    assert [keys.running(job) for job in snapshot.running] == [as_waiting(job) for job in snapshot.running]


def test_shortest_remaining_trusts_an_estimate_more_than_the_limit() -> None:
    limited = pending("limited", 1, max_runtime_ms=2 * MINUTE_MS)
    learnt = replace(pending("learnt", 1, max_runtime_ms=90 * MINUTE_MS), expected_runtime_ms=MINUTE_MS)
    endless = pending("endless", 1, max_runtime_ms=0)
    assert order_of([endless, limited, learnt], Policy(order="shortest_remaining")) == [
        "learnt",
        "limited",
        "endless",
    ]
