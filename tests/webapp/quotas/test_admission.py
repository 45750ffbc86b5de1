from collections.abc import Callable

import pytest
from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.quotas.admission import Admitted, Refused
from tests.support.rivals import rival
from tests.webapp.conftest import Cast
from webapp.accounts.models import Team
from webapp.quotas import queries, services
from webapp.quotas.models import LedgerEntry, Quota

Give = Callable[..., Quota]
Hold = Callable[..., None]


def waits(decision: Admitted | Refused) -> bool:
    assert isinstance(decision, Admitted)
    return decision.waits


def test_a_job_within_the_quota_is_let_in(cast: Cast, vision: Team, quota: Give) -> None:
    quota(vision, maximum=8)
    services.admit("vision", "cpu", 4, lambda: 4)
    assert not waits(queries.would_admit("vision", "cpu", 4, queued_gpus=4))


def test_a_job_larger_than_the_maximum_is_refused_with_the_numbers(vision: Team, quota: Give) -> None:
    quota(vision, "a100-80gb", maximum=8)
    with pytest.raises(TrainmasterError) as refusal:
        services.admit("vision", "a100-80gb", 12, lambda: 0)
    assert refusal.value.code == "quota_exceeded"
    assert refusal.value.sentence == "would exceed quota: 12/8 GPUs of a100-80gb"
    assert (refusal.value.numbers["wanted"], refusal.value.numbers["maximum"]) == (12, 8)


def test_what_runs_and_what_waits_counts_against_the_quota(
    cast: Cast, vision: Team, quota: Give, hold: Hold
) -> None:
    quota(vision, maximum=8, queue_beyond=False)
    hold(vision, cast.owner, slots=4)
    services.admit("vision", "cpu", 2, lambda: 2)
    with pytest.raises(TrainmasterError, match="9/8 slots of cpu"):
        services.admit("vision", "cpu", 3, lambda: 2)


def test_what_has_ended_counts_no_more(cast: Cast, vision: Team, quota: Give, hold: Hold) -> None:
    quota(vision, maximum=8, queue_beyond=False)
    hold(vision, cast.owner, slots=8, at_ms=0, until_ms=1000)
    assert not waits(queries.would_admit("vision", "cpu", 8, queued_gpus=0))


def test_beyond_the_maximum_a_job_may_wait_where_the_lead_allows_it(vision: Team, quota: Give) -> None:
    quota(vision, maximum=8)
    assert waits(queries.would_admit("vision", "cpu", 4, queued_gpus=8))


def test_without_a_quota_for_the_type_nothing_is_let_in(vision: Team) -> None:
    with pytest.raises(TrainmasterError, match="has no quota for h100"):
        services.admit("vision", "h100", 1, lambda: 0)


def test_the_use_of_another_team_or_type_does_not_count(
    cast: Cast, vision: Team, nlp: Team, quota: Give, hold: Hold
) -> None:
    quota(vision, guaranteed=0, maximum=2, queue_beyond=False)
    hold(nlp, cast.outsider, slots=8)
    hold(vision, cast.owner, slots=8, gpu_type="h100")
    services.admit("vision", "cpu", 2, lambda: 0)


def test_the_form_is_told_the_same_as_the_gate_says(vision: Team, quota: Give) -> None:
    quota(vision, maximum=8)
    told = queries.would_admit("vision", "cpu", 9, 0)
    with pytest.raises(TrainmasterError) as refusal:
        services.admit("vision", "cpu", 9, lambda: 0)
    assert refusal.value.sentence == getattr(told, "sentence", None)


def test_outside_a_transaction_the_gate_does_not_open(vision: Team, transactional_db: None) -> None:
    with pytest.raises(transaction.TransactionManagementError):
        services.admit("vision", "cpu", 1, lambda: 0)


def test_two_jobs_at_once_do_not_both_take_the_last_slots(
    cast: Cast, vision: Team, quota: Give, hold: Hold, transactional_db: None
) -> None:
    quota(vision, maximum=8, queue_beyond=False)
    outcome: list[str] = []
    with rival(lambda: services.admit("vision", "cpu", 8, lambda: 0), outcome) as begins:
        services.admit("vision", "cpu", 8, lambda: 0)
        begins()
        hold(vision, cast.owner, slots=8)
    assert outcome == ["quota_exceeded"]
    assert LedgerEntry.objects.count() == 1
