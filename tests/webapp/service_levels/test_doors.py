"""Service levels on their pages, over REST, in the report and in its mail: the same numbers everywhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core import mail
from django.test import Client
from rest_framework.test import APIClient

from platform_core.service_levels.budget import Counts
from platform_core.service_levels.objectives import OBJECTIVES
from webapp.accounts import mailing
from webapp.accounts.models import User
from webapp.base.identity import now_ms
from webapp.jobs.models import Job
from webapp.nodes.models import Node
from webapp.pages.report import report
from webapp.pages.service_levels.presentation import compliance

Browser = Callable[[User], Client]
HOUR_MS = 3_600_000


@pytest.fixture
def ended(cluster: list[Node], submit: Callable[..., Job]) -> list[Job]:
    """Seven jobs of vision succeeded and one lost its node."""
    jobs = [submit(num_gpus=2) for _ in range(8)]
    for number, job in enumerate(jobs):
        state, end = ("failed", "node_lost") if number == 0 else ("succeeded", "succeeded")
        Job.objects.filter(id=job.id).update(state=state, end=end, finished_ms=now_ms() - HOUR_MS)
    return jobs


@pytest.mark.parametrize(
    ("good", "total", "words"),
    [(0, 0, "no data"), (1, 1, "100 %"), (99_999_999, 100_000_000, "99.999 %"), (7, 8, "87.5 %")],
)
def test_what_is_not_all_never_reads_as_all(good: int, total: int, words: str) -> None:
    assert compliance(Counts(good, total)) == words


def test_the_page_says_no_data_where_there_is_none(browser: Browser, owner: User) -> None:
    page = browser(owner).get("/service-levels/").content.decode()
    for objective in OBJECTIVES:
        assert objective.title in page
    assert "no data" in page
    assert "100 %" not in page
    assert "No probe of the control plane failed" in page


def test_the_page_shows_compliance_and_the_budget(browser: Browser, owner: User, ended: list[Job]) -> None:
    page = browser(owner).get("/service-levels/").content.decode()
    assert "87.5 %" in page
    assert "7 of 8 jobs" in page
    assert "overspent by 150 %" in page
    one = browser(owner).get("/service-levels/completion/").content.decode()
    assert "7 of 8 jobs" in one
    assert "Change the objective" not in one


def test_a_team_sees_its_own_and_an_outsider_does_not(
    browser: Browser, owner: User, outsider: User, ended: list[Job]
) -> None:
    page = browser(owner).get("/service-levels/?team=vision")
    assert "7 of 8 jobs" in page.content.decode()
    assert "Cluster utilisation" not in page.content.decode()
    assert browser(outsider).get("/service-levels/?team=vision").status_code == 404
    assert "7 of 8 jobs" not in browser(outsider).get("/service-levels/?team=nlp").content.decode()


def test_an_admin_changes_a_target_on_its_page(browser: Browser, admin: User, ended: list[Job]) -> None:
    client = browser(admin)
    answer = client.post("/service-levels/completion/", {"target": "80"}, follow=True)
    page = answer.content.decode()
    assert "80 % of jobs" in page
    assert "Changed by root" in page
    assert "37 % left" in page or "38 % left" in page
    refused = client.post("/service-levels/completion/", {"target": "much"})
    assert refused.status_code == 422
    assert "is no number" in refused.content.decode()
    page = client.post("/service-levels/completion/reset/", follow=True).content.decode()
    assert "95 % of jobs" in page
    audit = client.get("/audit/").content.decode()
    assert "service level changed" in audit
    assert "from 95 % to 80 %" in audit


def test_rest_gives_the_same_numbers(api: Callable[..., APIClient], owner: User, ended: list[Job]) -> None:
    body = api(owner).get("/api/v1/service-levels").json()
    level = next(each for each in body["results"] if each["code"] == "completion")
    assert level["week"] == {"good": 7, "total": 8, "compliance": 0.875}
    assert level["budget_left"] == pytest.approx(-1.5)
    assert level["standing"] == "missed"
    unknown = next(each for each in body["results"] if each["code"] == "recovery")
    assert (unknown["standing"], unknown["budget_left"]) == ("no_data", None)
    assert unknown["week"]["compliance"] is None
    weeks = api(owner).get("/api/v1/service-levels/completion").json()["weeks"]
    assert [week["total"] for week in weeks] == [0] * 7 + [8]
    assert api(owner).get("/api/v1/service-levels?team=nlp").status_code == 404
    assert api(owner).get("/api/v1/service-levels/happiness").status_code == 404


def test_rest_changes_a_target(admin_api: Callable[[User], APIClient], admin: User) -> None:
    client = admin_api(admin)
    changed = client.patch(
        "/api/v1/service-levels/recovery_time", {"target": 0.8, "limit_ms": 60_000}, "json"
    )
    assert (changed.json()["target"], changed.json()["limit_ms"]) == (0.8, 60_000)
    refused = client.patch("/api/v1/service-levels/api_latency", {"limit_ms": 60_000}, "json")
    assert refused.status_code == 400
    assert "has no limit that can be changed" in refused.json()["detail"]
    assert client.delete("/api/v1/service-levels/recovery_time").json()["target"] == 0.9


def test_the_report_and_its_mail_have_them(
    browser: Browser, owner: User, ended: list[Job], settings: Any
) -> None:
    page = browser(owner).get("/report/").content.decode()
    assert "Jobs without a platform fault" in page
    assert "7 of 8 jobs" in page
    settings.REPORT_RECIPIENTS = ["lead@example.org"]
    settings.MAIL_URL = "smtp://mail.example.org:25"
    assert report.mail() == 1
    mailing.deliver()
    text = mail.outbox[0].body
    assert (
        "Jobs without a platform fault: 87.5 %, target 95 % (7 of 8 jobs); budget overspent by 150 %" in text
    )
    assert "Recovery success: no data, target 99.9 %" in text
