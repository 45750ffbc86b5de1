from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from platform_core.units import DAY_MS, HOUR_MS
from tests.webapp.conftest import Cast
from webapp.accounts.models import Team, User
from webapp.accounts.permissions import SYSTEM
from webapp.quotas import queries, services
from webapp.quotas.models import LedgerEntry, Quota
from webapp.quotas.services import Holding

Give = Callable[..., Quota]
Hold = Callable[..., None]
DOLLAR = 1_000_000


def test_opening_the_same_entry_twice_books_it_once(cast: Cast, owner: User) -> None:
    for _ in range(2):
        services.open_entries([Holding("att-1", "job-1", "node-1", "vision", owner.pk, "cpu", 2)], at_ms=5)
    assert queries.held("vision", "cpu") == 2


def test_closing_twice_keeps_the_first_end(cast: Cast, vision: Team, owner: User, hold: Hold) -> None:
    hold(vision, owner, slots=2, at_ms=0, until_ms=1000)
    assert services.close_entries({("att-1", "node-1"): 9000}) == 0
    assert LedgerEntry.objects.get().ended_ms == 1000


def test_an_attempt_lets_go_of_one_node_at_a_time(cast: Cast, owner: User) -> None:
    nodes = ("node-1", "node-2")
    services.open_entries(
        [Holding("att-1", "job-1", node, "vision", owner.pk, "cpu", 2) for node in nodes], at_ms=0
    )
    services.close_entries({("att-1", "node-1"): 10, ("att-2", "node-2"): 10})
    assert queries.held("vision", "cpu") == 2
    assert queries.holders(["att-1", "att-2"]) == {"att-1": queries.Holder("job-1", "vision", "alice")}
    services.close_entries({("att-1", node): 20 for node in nodes})
    assert queries.held("vision", "cpu") == 0


def test_the_price_of_the_day_it_started_is_the_price_it_costs(
    cast: Cast, vision: Team, owner: User, hold: Hold
) -> None:
    services.set_price(SYSTEM, "cpu", 2 * DOLLAR)
    hold(vision, owner, slots=3, at_ms=0, job="job-old")
    services.set_price(SYSTEM, "cpu", 5 * DOLLAR)
    hold(vision, owner, slots=1, at_ms=0, job="job-new")
    costs = {cost.id: cost.micro_dollars for cost in queries.costs_by_job("vision", 0, 2 * HOUR_MS)}
    assert costs == {"job-old": 12 * DOLLAR, "job-new": 10 * DOLLAR}


def test_cost_by_member_adds_up_jobs_and_prices(cast: Cast, vision: Team, hold: Hold) -> None:
    services.set_price(SYSTEM, "cpu", DOLLAR)
    hold(vision, cast.owner, slots=2, at_ms=0, until_ms=HOUR_MS, job="job-1")
    hold(vision, cast.owner, slots=2, at_ms=HOUR_MS, until_ms=2 * HOUR_MS, job="job-1")
    hold(vision, cast.owner, slots=1, at_ms=0, until_ms=HOUR_MS, job="job-2")
    hold(vision, cast.member, slots=1, at_ms=0, until_ms=HOUR_MS, job="job-3")
    assert queries.costs_by_member("vision", 0, 2 * HOUR_MS) == (
        queries.MemberCost("alice", 2, 5 * HOUR_MS, 5 * DOLLAR),
        queries.MemberCost("bob", 1, HOUR_MS, DOLLAR),
    )


def test_only_the_part_that_lies_in_the_period_counts(
    cast: Cast, vision: Team, owner: User, hold: Hold
) -> None:
    hold(vision, owner, slots=2, at_ms=0, until_ms=10 * HOUR_MS)
    hold(vision, owner, slots=1, at_ms=9 * HOUR_MS)  # still held
    hold(vision, owner, slots=1, at_ms=0, until_ms=4 * HOUR_MS)  # before it
    hold(vision, owner, slots=1, at_ms=20 * HOUR_MS)  # after it
    (cost,) = queries.costs_by_member("vision", 4 * HOUR_MS, 12 * HOUR_MS)
    assert cost.gpu_ms == (2 * 6 + 1 * 3) * HOUR_MS
    assert cost.jobs == 2


def test_a_cluster_full_of_dear_slots_for_a_month_does_not_overflow(
    cast: Cast, vision: Team, owner: User, hold: Hold
) -> None:
    services.set_price(SYSTEM, "h100", 100 * DOLLAR)
    hold(vision, owner, slots=100_000, at_ms=0, until_ms=30 * DAY_MS, gpu_type="h100")
    assert queries.costs_by_member("vision", 0, 30 * DAY_MS)[0].micro_dollars == 100_000 * 720 * 100 * DOLLAR


def test_the_cost_of_one_job_runs_on_while_it_holds_slots(
    cast: Cast, vision: Team, owner: User, hold: Hold
) -> None:
    services.set_price(SYSTEM, "cpu", DOLLAR)
    assert queries.cost_of_job("job-1", HOUR_MS) is None
    hold(vision, owner, slots=4, at_ms=0, job="job-1")
    cost = queries.cost_of_job("job-1", HOUR_MS // 2)
    assert cost is not None
    assert (cost.gpu_ms, cost.micro_dollars) == (2 * HOUR_MS, 2 * DOLLAR)


def test_use_over_time_steps_up_and_down(cast: Cast, vision: Team, owner: User, hold: Hold) -> None:
    hold(vision, owner, slots=2, at_ms=100, until_ms=300)
    hold(vision, owner, slots=3, at_ms=200)
    hold(vision, owner, slots=1, at_ms=10, until_ms=20)  # before the period
    assert queries.use_over_time("vision", 50, 400) == {"cpu": ((50, 0), (100, 2), (200, 5), (300, 3))}


def test_slots_handed_from_one_job_to_the_next_at_once_make_no_step(
    cast: Cast, vision: Team, owner: User, hold: Hold
) -> None:
    hold(vision, owner, slots=2, at_ms=0, until_ms=100)
    hold(vision, owner, slots=2, at_ms=100, until_ms=200)
    assert queries.use_over_time("vision", 0, 300) == {"cpu": ((0, 2), (200, 0))}


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    holdings=st.lists(
        st.tuples(st.integers(1, 8), st.integers(0, 50), st.integers(0, 50)).map(
            lambda held: (held[0], min(held[1:]), max(held[1:]))
        ),
        max_size=8,
    )
)
def test_the_sum_of_the_books_is_wall_time_times_slots(
    cast: Cast, vision: Team, owner: User, hold: Hold, holdings: list[tuple[int, int, int]]
) -> None:
    LedgerEntry.objects.all().delete()
    for slots, from_ms, to_ms in holdings:
        hold(vision, owner, slots=slots, at_ms=from_ms, until_ms=to_ms)
    booked = sum(
        entry.slots * ((50 if entry.ended_ms is None else entry.ended_ms) - entry.started_ms)
        for entry in queries.books()
    )
    held = sum(slots * (to_ms - from_ms) for slots, from_ms, to_ms in holdings)
    assert booked == held
    steps = queries.use_over_time("vision", 0, 50).get("cpu", ((0, 0),))
    area = sum(
        level * (until - at_ms)
        for (at_ms, level), until in zip(steps, [at for at, _ in steps[1:]] + [50], strict=True)
    )
    assert area == held == sum(cost.gpu_ms for cost in queries.costs_by_member("vision", 0, 50))


def test_the_share_of_a_team_is_its_recent_use_against_its_weight(
    cast: Cast, vision: Team, nlp: Team, quota: Give, hold: Hold
) -> None:
    quota(vision)
    quota(nlp)
    hold(vision, cast.owner, slots=3, at_ms=0, until_ms=HOUR_MS)
    hold(nlp, cast.outsider, slots=1, at_ms=0)
    shares = {share.team: share for share in queries.team_shares(HOUR_MS)}
    assert shares["vision"].usage_share == pytest.approx(1.5)
    assert shares["nlp"].usage_share == pytest.approx(0.5)
    assert (shares["vision"].used, shares["nlp"].used) == (0, 1)
    assert (shares["nlp"].guaranteed, shares["nlp"].maximum, shares["nlp"].weight) == (4, 8, 1.0)


def test_shares_cost_a_few_queries_however_long_the_books_are(
    cast: Cast, vision: Team, quota: Give, hold: Hold, django_assert_max_num_queries: Callable[..., object]
) -> None:
    quota(vision)
    for _ in range(20):
        hold(vision, cast.owner, slots=1, at_ms=0, until_ms=HOUR_MS)
    with django_assert_max_num_queries(4):  # type: ignore[attr-defined]
        queries.team_shares(HOUR_MS)
    with django_assert_max_num_queries(3):  # type: ignore[attr-defined]
        queries.team_shares(HOUR_MS + 2000)
