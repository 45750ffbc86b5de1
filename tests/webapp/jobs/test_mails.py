"""The owner of a job hears by mail what they would not see otherwise: it idles, it is taken off, it has failed."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core import mail

from platform_core.jobs.job import MemberPhase
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS
from tests.webapp.jobs.conftest import after_its_pause, say, state, tick
from webapp.accounts import mailing
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import idle_policy, services
from webapp.jobs.models import Job
from webapp.nodes.models import Node

HALF_HOUR_MS = 30 * MINUTE_MS
Submit = Callable[..., Job]


@pytest.fixture(autouse=True)
def platform(settings: Any, owner: User) -> None:
    settings.MAIL_URL = "smtp://mail.example.org:25"
    settings.PUBLIC_URL = "https://train.example.org"
    User.objects.filter(pk=owner.pk).update(email="alice@example.org")


@pytest.fixture
def running(cluster: list[Node], submit: Submit) -> Job:
    job = submit(name="sleeper", num_gpus=8, preemptible=True, max_runtime_hours=9)
    tick()
    say(job, MemberPhase.RUNNING)
    return Job.objects.get(id=job.id)


def sent() -> list[tuple[str, str]]:
    """(subject, what stands before the reason why one gets it) of all mail so far."""
    mailing.deliver()
    assert all(each.to == ["alice@example.org"] for each in mail.outbox)
    return [(each.subject, str(each.body).partition("\nYou get this")[0]) for each in mail.outbox]


def idle_again(job: Job, since_ms: int, at_ms: int) -> None:
    """It works for a moment, idles from then on, and the sampler comes twice."""
    idle_policy.keep_utilisation({job.id: 0.9}, since_ms)
    idle_policy.keep_utilisation({job.id: 0.0}, since_ms)
    for _ in range(2):
        idle_policy.deal_with_idle(at_ms)


def test_slots_that_idle_are_told_once_a_day(running: Job) -> None:
    noon = now_ms() // DAY_MS * DAY_MS + DAY_MS // 2
    idle_again(running, noon, noon + HALF_HOUR_MS)
    [(subject, text)] = sent()
    assert subject == "Trainmaster: slots of sleeper idle"
    assert re.fullmatch(
        r"sleeper of vision, \d{4}-\d\d-\d\d 12:30 UTC\n\n"
        r"Its 8 slots of cpu have been below 5 % for 30 min\. If it hangs, cancel it: its checkpoints, metrics and log "
        rf"stay\.\n\nhttps://train\.example\.org/jobs/{running.id}/\n",
        text,
    )
    idle_again(running, noon + HOUR_MS, noon + 2 * HOUR_MS)
    assert len(sent()) == 1
    idle_again(running, noon + DAY_MS, noon + DAY_MS + HOUR_MS)
    assert len(sent()) == 2


def test_being_taken_off_idle_slots_is_told_with_the_team_that_waits_for_them(
    running: Job, submit: Submit, settings: Any
) -> None:
    settings.IDLE_RECLAIM = True
    waits = submit(name="secretive", num_gpus=2)
    began = now_ms()
    idle_policy.keep_utilisation({running.id: 0.0}, began)
    for later in (HALF_HOUR_MS, HOUR_MS, HOUR_MS + MINUTE_MS):
        idle_policy.deal_with_idle(began + later)
    warned, taken = sent()
    assert "it gives its slots up in 30 min, if others wait for them" in warned[1]
    assert taken[0] == "Trainmaster: sleeper lost its idle slots"
    assert "below 5 % for 1 h, and a job of vision is pending for such slots: it releases them." in taken[1]
    assert not re.search(f"secretive|{waits.id}", taken[0] + taken[1])


def test_a_job_that_failed_for_good_is_told_without_what_its_script_said(running: Job) -> None:
    for _ in range(2):
        say(running, MemberPhase.EXITED, 1, reason="rank 0: KeyError: 'password=hunter2'")
        after_its_pause(running)
        if state(running) == "scheduled":
            say(running, MemberPhase.RUNNING)
    assert state(running) == "failed"
    assert "hunter2" in Job.objects.get(id=running.id).reason
    [(subject, text)] = sent()
    assert subject == "Trainmaster: sleeper has failed"
    assert "It failed after 1 restart and is not restarted." in text
    assert f"https://train.example.org/jobs/{running.id}/" in text
    assert "hunter2" not in text


def test_one_that_is_restarted_cancelled_or_done_is_no_news(
    running: Job, submit: Submit, owner: User
) -> None:
    say(running, MemberPhase.EXITED, 1)
    assert state(running) == "pending"
    services.cancel(actor_of(owner), running.id)
    other = submit()
    tick()
    say(other, MemberPhase.RUNNING)
    say(other, MemberPhase.EXITED, 0)
    assert (state(running), state(other)) == ("cancelled", "succeeded")
    assert sent() == []


def test_one_kind_is_switched_off_without_the_other(running: Job, owner: User) -> None:
    Job.objects.filter(id=running.id).update(spec=running.spec | {"max_restarts": 0})
    User.objects.filter(pk=owner.pk).update(mail_idle=False)
    idle_again(running, now_ms(), now_ms() + HOUR_MS)
    say(running, MemberPhase.EXITED, 1)
    assert [subject for subject, _ in sent()] == ["Trainmaster: sleeper has failed"]
