"""The report of any week that is over, and what has changed against the week before."""

from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.core import mail
from django.test import Client

from platform_core.errors import TrainmasterError
from platform_core.jobs.job import MemberPhase
from platform_core.units import DAY_MS, HOUR_MS
from tests.webapp.jobs.conftest import SPEC, say, tick
from webapp.accounts import mailing
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import queries
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job, UtilisationSample
from webapp.nodes.models import Node
from webapp.pages.report import report, weeks
from webapp.pages.report.weeks import WEEK_MS, Week
from webapp.quotas.models import LedgerEntry

Browser = Callable[[User], Client]


@pytest.fixture
def last(cluster: list[Node], owner: User) -> Week:
    """The newest week that is over: a job of eight slots started in it after an hour, and ran for two. In the week
    before one of four had started after two hours, and ran for one."""
    week = weeks.newest(now_ms())
    for begin_ms, gpus, waited, ran in ((week.from_ms, 8, 1, 2), (week.from_ms - WEEK_MS, 4, 2, 1)):
        job = jobs.submit(actor_of(owner), {**SPEC, "name": f"job-of-{gpus}", "num_gpus": gpus})[0]
        tick()
        say(job, MemberPhase.RUNNING)
        say(job, MemberPhase.EXITED, 0)
        placed_ms = begin_ms + DAY_MS + waited * HOUR_MS
        ended_ms = placed_ms + ran * HOUR_MS
        Attempt.objects.filter(job=job).update(placed_ms=placed_ms)
        LedgerEntry.objects.filter(job_id=job.id).update(
            started_ms=placed_ms, ended_ms=ended_ms, micro_dollars_per_hour=1_000_000
        )
        Job.objects.filter(id=job.id).update(submitted_ms=begin_ms + DAY_MS, finished_ms=ended_ms)
        UtilisationSample.objects.create(
            at_ms=placed_ms, gpu_type="cpu", slots=8, held=gpus, utilisation=0.5, queued_jobs=0
        )
    return week


def look(person: Client, address: str = "/report/") -> str:
    return " ".join(unescape(person.get(address).content.decode()).split())


def test_a_week_is_told_by_its_own_figures_and_how_they_changed(last: Week) -> None:
    made = report.make(None, last.to_ms, is_over=True)
    told = {each.label: (each.value, each.note) for each in made.figures}
    assert told == {
        "Allocation": ("100 %", "up from 50 %"),
        "Utilisation": ("50 %", "unchanged"),
        "MFU": ("–", ""),
        "Median wait": ("1 h", "down from 2 h"),
        "p95 wait": ("1 h", "down from 2 h"),
        "GPU-hours": ("16.0", "up from 4.0"),
        "Cost": ("$16.00", "up from $4.00"),
        "Unallocated capacity": ("–", ""),
        "Failed attempts": ("0", "unchanged"),
        "Mean time to recovery": ("–", ""),
        "Recovered": ("–", ""),
        "Effective training time": ("–", ""),
        "Steps lost": ("0", "unchanged"),
    }
    assert [(each.label, each.jobs) for each in made.waits] == [("2 to 8", 1)]
    [cpu] = made.types
    assert cpu.held == 100
    assert [use.gpu_ms for use in made.teams] == [16 * HOUR_MS]


def test_without_a_week_before_nothing_is_compared(last: Week) -> None:
    made = report.make(None, last.to_ms - WEEK_MS, is_over=True)
    notes = {each.label: each.note for each in made.figures}
    assert notes["Allocation"] == notes["p95 wait"] == ""
    assert notes["GPU-hours"] == "up from 0.0"


def test_costs_are_those_of_the_teams_one_sees(last: Week) -> None:
    told = {each.label: each.value for each in report.make(["nlp"], last.to_ms, is_over=True).figures}
    assert (told["GPU-hours"], told["Cost"], told["Allocation"]) == ("0.0", "$0.00", "100 %")


def test_the_address_restores_the_week_and_leads_to_its_neighbours(
    last: Week, browser: Browser, owner: User
) -> None:
    before = weeks.of(last.from_ms - 1)
    rolling = look(browser(owner))
    assert f'href="?week={last.name}"' in rolling
    assert 'data-live="cluster"' in rolling
    page = look(browser(owner), f"/report/?week={last.name}")
    assert f"week {last.name}" in page
    assert last.words in page
    assert "up from $4.00" in page
    assert f'rel="prev" href="?week={before.name}"' in page
    assert 'rel="next"' not in page  # after it come the last seven days
    assert '<a class="btn" href="?">Last seven days</a>' in page
    assert "Idle slots now" not in page
    assert 'id="report"' in page
    assert 'data-live="cluster"' not in page
    first = look(browser(owner), f"/report/?week={before.name}")
    assert f'rel="next" href="?week={last.name}"' in first
    assert 'rel="prev"' not in first  # there were no jobs yet


def test_samples_that_are_not_kept_any_more_are_not_taken_for_an_empty_cluster(
    last: Week, browser: Browser, owner: User
) -> None:
    Job.objects.update(submitted_ms=now_ms() - 100 * DAY_MS)
    old = weeks.of(now_ms() - 60 * DAY_MS)
    UtilisationSample.objects.create(
        at_ms=old.to_ms - 1, gpu_type="cpu", slots=8, held=8, utilisation=0.5, queued_jobs=0
    )
    page = look(browser(owner), f"/report/?week={old.name}")
    assert "Samples are kept for 30 days, and this week is older." in page
    assert report.make(None, old.to_ms, is_over=True).types == ()


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ("2026-W60", "a week is a year and its number, as in"),
        ("last", "a week is a year and its number, as in"),
        ("9999-W52", "it is not over yet; the last that is over is"),
    ],
)
def test_a_week_that_cannot_be_shown_is_refused_with_one_that_can(
    asked: str, why: str, browser: Browser, owner: User
) -> None:
    page = browser(owner).get("/report/", {"week": asked})
    assert page.status_code == 400
    told = unescape(page.content.decode())
    assert f"Week '{asked}' is not valid: {why} {weeks.newest(now_ms()).name}" in told


def test_the_week_that_goes_on_is_not_over(db: None) -> None:
    now = now_ms()
    with pytest.raises(TrainmasterError, match="it is not over yet"):
        weeks.read(weeks.of(now).name, now)
    assert weeks.read(weeks.newest(now).name, now) == weeks.newest(now)


def test_weeks_begin_on_monday_and_are_named_as_in_iso_8601() -> None:
    new_year = weeks.of(1_704_067_200_000)  # Monday, 1 January 2024
    assert (new_year.name, new_year.from_ms) == ("2024-W01", 1_704_067_200_000)
    assert new_year.words == "1 January to 7 January 2024"
    sunday = weeks.of(new_year.from_ms - 1)
    assert (sunday.name, sunday.to_ms) == ("2023-W52", new_year.from_ms)


def test_who_waited_at_the_end_of_a_week_is_told_with_it_though_it_has_started_since(last: Week) -> None:
    [job] = Job.objects.filter(num_gpus=8)
    Attempt.objects.filter(job=job).update(placed_ms=last.to_ms + HOUR_MS)
    Job.objects.filter(id=job.id).update(finished_ms=last.to_ms + 2 * HOUR_MS)
    assert queries.waits_without_a_start(last.to_ms) == [(8, last.to_ms - job.submitted_ms)]
    assert queries.waits_without_a_start(last.to_ms + 2 * HOUR_MS) == []


def test_the_mail_tells_the_changes_too(last: Week, settings: Any) -> None:
    settings.REPORT_RECIPIENTS = ["ops@example.org"]
    settings.MAIL_URL = "smtp://mail.example.org:25"
    report.mail()
    mailing.deliver()
    assert "Compared with the seven days before\n  Allocation:" in mail.outbox[0].body
