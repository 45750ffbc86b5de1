"""The last day again under other circumstances, asked from the browser and answered by a worker."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from platform_core.jobs.job import MemberPhase
from platform_core.quotas.fair_share import Use, decayed
from platform_core.quotas.recent_use import UseBefore
from platform_core.scheduling.policy import Policy
from platform_core.simulation.what_if import Circumstances
from platform_core.units import HOUR_MS
from tests.webapp.jobs.conftest import SPEC, say, tick
from webapp.accounts.models import Team, User
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import services as jobs
from webapp.jobs import workload
from webapp.jobs.models import Attempt, Job
from webapp.nodes import services as clusters
from webapp.nodes.models import Node
from webapp.quotas import queries as quotas
from webapp.quotas.models import LedgerEntry, Quota
from webapp.scheduling import what_if
from webapp.scheduling.models import WhatIf

pytestmark = pytest.mark.usefixtures("cluster")
Browser = Callable[[User], Client]
FORM = {"gpu_type": "cpu", "more_nodes": "0", "order": "priority_fair_share", "reservations": "4"}


@pytest.fixture
def day(owner: User) -> list[Job]:
    """Two jobs of all eight slots: one has run for an hour, the other waits."""
    made = [
        jobs.submit(actor_of(owner), {**SPEC, "name": name, "num_gpus": 8, "max_runtime_hours": 2})[0]
        for name in ("first", "second")
    ]
    tick()
    say(made[0], MemberPhase.RUNNING)
    Job.objects.update(submitted_ms=now_ms() - HOUR_MS)
    Attempt.objects.update(placed_ms=now_ms() - HOUR_MS)
    return made


def asked(who: User, browser: Browser, **changes: str) -> Any:
    answer = browser(who).post("/queue/what-if/", {**FORM, **changes})
    assert answer.status_code == 302
    row = WhatIf.objects.latest("id")
    what_if.answer(row.pk)
    row.refresh_from_db()
    return row


def test_the_day_is_the_jobs_with_what_they_ran_or_are_expected_to(day: list[Job]) -> None:
    now = now_ms()
    told = {each.id: each for each in workload.since("cpu", now - 24 * HOUR_MS, now)}
    first, second = (told[job.id] for job in day)
    assert abs(first.duration_ms - HOUR_MS) < 60_000
    assert second.duration_ms == 2 * HOUR_MS * 30 // 100
    assert workload.since("gpu", now - HOUR_MS, now) == []


def test_those_from_before_the_day_come_at_its_beginning_with_what_was_left(day: list[Job]) -> None:
    now = now_ms()
    first = next(each for each in workload.since("cpu", now - HOUR_MS // 4, now) if each.id == day[0].id)
    assert first.submit_ms == now - HOUR_MS // 4
    assert first.duration_ms == 2 * HOUR_MS * 30 // 100  # more than the quarter of an hour it has run since


def test_the_day_begins_with_what_the_books_say_was_used_until_then(
    day: list[Job], browser: Browser, owner: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins: list[UseBefore | None] = []
    play = what_if.play

    def watched(jobs: Any, circumstances: Circumstances) -> Any:
        begins.append(circumstances.before)
        return play(jobs, circumstances)

    monkeypatch.setattr(what_if, "play", watched)
    [entry, *_] = LedgerEntry.objects.order_by("node_id")
    now = now_ms()
    LedgerEntry.objects.exclude(pk=entry.pk).update(
        started_ms=now - HOUR_MS
    )  # in the day: played, not known before
    LedgerEntry.objects.filter(pk=entry.pk).update(started_ms=now - 48 * HOUR_MS)
    row = asked(owner, browser, more_nodes="1")
    as_set, as_asked = begins
    assert as_set
    assert as_set == as_asked
    assert as_set.at_ms == row.asked_ms - 24 * HOUR_MS
    known = Use("vision", entry.slots, now - 48 * HOUR_MS, as_set.at_ms)
    assert as_set.used == {"vision": pytest.approx(decayed(known, as_set.at_ms))}


def test_with_twice_the_nodes_nobody_would_have_waited(day: list[Job], browser: Browser, owner: User) -> None:
    row = asked(owner, browser, more_nodes="4", **{"max-vision": "16"})
    assert row.answer["jobs"] == 2
    assert row.answer["before"]["mean_queue_s"] > 0
    assert row.answer["after"]["mean_queue_s"] == 0
    page = browser(owner).get("/queue/what-if/").content.decode()
    assert "2 jobs of cpu" in page
    assert "Changed settings" in page


def test_with_half_the_quota_neither_could_have_started(
    day: list[Job], browser: Browser, owner: User
) -> None:
    row = asked(owner, browser, **{"max-vision": "4"})
    assert (row.answer["after"]["never_started"], row.answer["before"]["never_started"]) == (2, 0)


def test_taints_and_booked_maintenance_do_not_count(
    day: list[Job], browser: Browser, owner: User, settings: Any
) -> None:
    for node in Node.objects.all():
        clusters.mark(SYSTEM, node.id, taints=["lab"], labels={"spot": "yes"})
        clusters.book_maintenance(SYSTEM, [node.id], now_ms() + 1, now_ms() + HOUR_MS, "")
    row = asked(owner, browser)
    assert (row.answer["before"]["never_started"], row.answer["after"]["never_started"]) == (0, 0)


def test_what_is_not_asked_about_stays_as_it_is() -> None:
    as_it_is = Circumstances((), (), Policy(elastic=True, reclaims=True))
    after = what_if.changed(as_it_is, what_if.Question("cpu", 0, "first_come", 2, True, {}))
    assert after.policy == Policy(
        "first_come", reservations=2, evicts=True, migrates=True, elastic=True, reclaims=True
    )


def test_a_guarantee_that_is_asked_for_counts_and_another_gives_way_to_a_lower_maximum(
    vision: object,
) -> None:
    as_it_is = Circumstances((), quotas.team_shares(now_ms()), Policy())
    for maximum, guaranteed, limits in (
        ({}, {"vision": 7}, (7, 8)),
        ({"vision": 3}, {}, (3, 3)),
        ({"vision": 12}, {"vision": 0}, (0, 12)),
    ):
        question = what_if.Question("cpu", 0, "first_come", 2, True, maximum, guaranteed)
        (share,) = what_if.changed(as_it_is, question).shares
        assert (share.guaranteed, share.maximum) == limits


def test_the_form_has_the_teams_of_every_slot_type_and_keeps_what_was_asked(
    day: list[Job], browser: Browser, owner: User, nlp: Team, quota: Callable[..., Quota]
) -> None:
    quota(nlp, "a100-80gb")
    asked(owner, browser, **{"min-vision": "6", "max-vision": "7"})
    page = browser(owner).get("/queue/what-if/").content.decode()
    for name, value in (("min-vision", "6"), ("max-vision", "7"), ("min-nlp", ""), ("max-nlp", "")):
        assert f'name="{name}" type="number" min="0" value="{value}"' in page


def test_an_elastic_job_is_played_as_one_with_the_work_it_has_done(owner: User) -> None:
    """It began with four of the eight that it asks for, and so has done half of an hour's work."""
    jobs.submit(actor_of(owner), {**SPEC, "name": "first", "num_gpus": 4})
    tick()
    elastic, _ = jobs.submit(actor_of(owner), {**SPEC, "name": "stretch", "num_gpus": 8, "min_gpus": 2})
    tick()
    say(elastic, MemberPhase.RUNNING)
    say(elastic, MemberPhase.EXITED, 0)
    now = now_ms()
    Job.objects.filter(id=elastic.id).update(submitted_ms=now - HOUR_MS, finished_ms=now)
    Attempt.objects.filter(job=elastic).update(placed_ms=now - HOUR_MS, ended_ms=now)
    played = {each.id: each for each in workload.since("cpu", now - 24 * HOUR_MS, now)}
    told = played.pop(elastic.id)
    assert (told.gpus, told.min_gpus, told.duration_ms) == (8, 2, HOUR_MS // 2)
    assert [each.min_gpus for each in played.values()] == [0]


def test_a_day_without_jobs_has_no_answer_but_a_reason(browser: Browser, owner: User) -> None:
    row = asked(owner, browser)
    assert row.answer is None
    assert row.error == "There is nothing to play: no job of this slot type in the last day."


@pytest.mark.parametrize(
    "wrong",
    [
        {"gpu_type": "tpu"},
        {"order": "best"},
        {"more_nodes": "x"},
        {"more_nodes": "99999"},
        {"reservations": "-1"},
        {"max-vision": "-4"},
        {"max-nlp": "4"},  # it has no quota of the type
        {"min-vision": "9"},  # its maximum is 8
        {"min-vision": "5", "max-vision": "4"},
    ],
)
def test_a_question_that_makes_no_sense_is_refused(
    browser: Browser, owner: User, wrong: dict[str, str]
) -> None:
    assert browser(owner).post("/queue/what-if/", {**FORM, **wrong}).status_code == 400
    assert not WhatIf.objects.exists()


def test_one_question_at_a_time_and_nobody_sees_anothers(
    day: list[Job], browser: Browser, owner: User, outsider: User
) -> None:
    assert browser(owner).post("/queue/what-if/", FORM).status_code == 302
    assert browser(owner).post("/queue/what-if/", FORM).status_code == 400
    row = WhatIf.objects.get()
    assert what_if.may_watch(owner, str(row.pk))
    assert not what_if.may_watch(outsider, str(row.pk))
    assert (
        "It is being played" not in browser(outsider).get(f"/queue/what-if/?asked={row.pk}").content.decode()
    )


def test_without_any_quota_there_is_nothing_to_ask(browser: Browser, owner: User) -> None:
    Quota.objects.all().delete()
    page = browser(owner).get("/queue/what-if/").content.decode()
    assert "No GPU type has a quota" in page
    assert "Run the replay" not in page
