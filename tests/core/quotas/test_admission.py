from __future__ import annotations

import itertools

import pytest

from platform_core.errors import CATALOGUE, TrainmasterError
from platform_core.quotas.admission import Admitted, Refused, Request, admit
from platform_core.quotas.limits import Limits, Usage


def ask(
    gpus: int, *, held: int = 0, queued: int = 0, maximum: int = 8, beyond: bool = True
) -> Admitted | Refused:
    limits = Limits(guaranteed=maximum // 2, maximum=maximum, queue_beyond=beyond)
    return admit(Request("vision", "a100-80gb", gpus), Usage(held, queued), limits)


def test_more_than_the_maximum_is_refused_with_the_numbers():
    refused = ask(12)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.sentence) == (
        "quota_exceeded",
        "would exceed quota: 12/8 GPUs of a100-80gb",
    )
    assert dict(refused.numbers) == {
        "team": "vision", "gpu_type": "a100-80gb", "asked": 12, "held": 0, "queued": 0, "wanted": 12, "maximum": 8,
    }  # fmt: skip


def test_a_team_that_may_not_queue_beyond_is_refused_with_what_it_has():
    refused = ask(4, held=6, queued=2, beyond=False)
    assert isinstance(refused, Refused)
    told = "would exceed quota: 12/8 GPUs of a100-80gb (6 in use, 2 pending, 4 more requested)"
    assert refused.sentence == told


def test_a_job_beyond_the_maximum_waits_where_it_may():
    assert ask(4, held=6, queued=2) == Admitted(True, "waits for the team's quota: 12/8 GPUs of a100-80gb")


def test_what_is_borrowed_is_said():
    assert ask(4, held=3) == Admitted(False, "within quota: 7/8 GPUs of a100-80gb, 3 of them borrowed")
    assert ask(2, held=5) == Admitted(False, "within quota: 7/8 GPUs of a100-80gb, 2 of them borrowed")
    assert ask(4) == Admitted(False, "within quota: 4/8 GPUs of a100-80gb")


def test_a_team_without_a_quota_is_refused():
    refused = admit(Request("nlp", "h100", 1), Usage(0, 0), None)
    assert isinstance(refused, Refused)
    assert refused.sentence == "team nlp has no quota for h100; an admin can give it one"


def test_a_refusal_becomes_the_error_of_the_catalogue():
    refused = ask(12)
    assert isinstance(refused, Refused)
    assert refused.code in CATALOGUE
    assert str(TrainmasterError(refused.code, **dict(refused.numbers))) == refused.sentence


def test_all_small_numbers():
    for gpus, held, queued, maximum in itertools.product(range(1, 6), range(5), range(5), range(5)):
        total = held + queued + gpus
        for beyond in (True, False):
            decision = ask(gpus, held=held, queued=queued, maximum=maximum, beyond=beyond)
            if gpus > maximum or (total > maximum and not beyond):
                assert isinstance(decision, Refused)
                assert dict(decision.numbers)["wanted"] in (gpus, total)
            else:
                assert isinstance(decision, Admitted)
                assert decision.waits == (total > maximum)


def test_what_is_admitted_stays_admitted_when_less_is_asked_or_used():
    for gpus, held, queued, maximum in itertools.product(range(2, 6), range(1, 5), range(1, 5), range(5)):
        for beyond in (True, False):
            if isinstance(ask(gpus, held=held, queued=queued, maximum=maximum, beyond=beyond), Admitted):
                assert isinstance(
                    ask(gpus - 1, held=held, queued=queued, maximum=maximum, beyond=beyond), Admitted
                )
                assert isinstance(
                    ask(gpus, held=held - 1, queued=queued, maximum=maximum, beyond=beyond), Admitted
                )


@pytest.mark.parametrize(("guaranteed", "maximum"), [(-1, 4), (5, 4)])
def test_limits_that_contradict_themselves_are_refused(guaranteed: int, maximum: int):
    with pytest.raises(ValueError, match="0 <= guaranteed <= maximum"):
        Limits(guaranteed, maximum)
