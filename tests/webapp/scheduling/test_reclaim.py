"""A team gets back the slots that it lent, from the jobs of those who borrowed them."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from platform_core.jobs.job import MemberPhase
from platform_core.units import HOUR_MS
from tests.webapp.jobs.conftest import SPEC, say, state, tick
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.nodes.models import Node
from webapp.quotas.models import Quota
from webapp.scheduling import rounds
from webapp.scheduling.models import Receipt, Round


@pytest.fixture
def borrowed(cluster: list[Node], nlp: Team, quota: Callable[..., Quota], outsider: User) -> Job:
    """Language holds all eight slots, four of which are guaranteed to vision."""
    quota(nlp)
    mapping = {
        **SPEC,
        "team": "nlp",
        "num_gpus": 8,
        "preemptible": True,
        "max_runtime_hours": 9,
    }
    job = jobs.submit(actor_of(outsider), mapping)[0]
    tick()
    say(job, MemberPhase.RUNNING)
    Job.objects.filter(id=job.id).update(started_ms=now_ms() - HOUR_MS, priority=0)
    return job


def submit(who: User, **changes: Any) -> Job:
    return jobs.submit(actor_of(who), {**SPEC, "num_gpus": 4, **changes})[0]


def test_the_owner_takes_back_its_guarantee(borrowed: Job, owner: User) -> None:
    mine = submit(owner, priority=100)
    tick()
    assert Job.objects.get(id=borrowed.id).stop == "preempt"
    cause = Event.objects.get(kind="PreemptRequested").cause
    assert (
        f"team vision reclaims 4 slots of cpu of its guarantee for {mine.id}; team nlp had borrowed them"
        in cause
    )
    receipt = Receipt.objects.get()
    assert (receipt.kind, receipt.team, receipt.for_team) == ("reclaimed", "nlp", "vision")
    tick()
    assert Receipt.objects.count() == 1
    say(borrowed, MemberPhase.EXITED, 0)
    tick()
    assert (state(mine), state(borrowed)) == ("scheduled", "preempted")
    assert all(rounds.replay(row).same for row in Round.objects.all())


def test_beyond_its_guarantee_it_waits_like_everybody(borrowed: Job, owner: User) -> None:
    submit(owner, num_gpus=5)
    tick()
    assert not Receipt.objects.exists()


def test_an_operator_can_switch_it_off(borrowed: Job, owner: User, settings: Any) -> None:
    settings.SCHEDULING_RECLAIM = False
    submit(owner)
    tick()
    assert not Receipt.objects.exists()


def test_the_page_says_when_the_borrower_may_be_stopped(
    borrowed: Job, owner: User, browser: Callable[[User], Client]
) -> None:
    Job.objects.filter(id=borrowed.id).update(started_ms=now_ms() - HOUR_MS // 60)
    mine = submit(owner)
    tick()
    assert not Receipt.objects.exists()
    page = browser(owner).get(f"/jobs/{mine.id}/").content.decode()
    assert re.search(
        rf"{borrowed.id} holds slots that team vision is guaranteed and may be stopped for it in [34] min[^<]*, "
        r"after its first 5 min",
        page,
    ), Job.objects.get(id=mine.id).wait_sentence
