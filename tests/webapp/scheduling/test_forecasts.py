"""The page that shows how good the forecasts were, from no start at all to two hundred."""

import json
import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from platform_core.units import HOUR_MS, MINUTE_MS
from tests.webapp.jobs.conftest import SPEC, tick
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.jobs import services as jobs
from webapp.jobs.models import Job
from webapp.scheduling import queries as forecasts
from webapp.scheduling.models import Prediction

pytestmark = pytest.mark.usefixtures("cluster")
Browser = Callable[[User], Client]
TOLD_MS = 1_700_000_000_000


def record(job_id: str, early: int, late: int | None, waited: int | None) -> None:
    """In minutes from when it was told."""
    late_ms = None if late is None else TOLD_MS + late * MINUTE_MS
    Prediction.objects.create(
        job_id=job_id, made_ms=TOLD_MS, early_ms=TOLD_MS + early * MINUTE_MS, late_ms=late_ms,
        newest_early_ms=TOLD_MS, newest_late_ms=late_ms,
        started_ms=None if waited is None else TOLD_MS + waited * MINUTE_MS,
    )  # fmt: skip


def look(client: Client) -> str:
    return unescape(client.get("/queue/forecasts/").content.decode())


def row(page: str, label: str) -> list[str]:
    found = re.search(rf'<th scope="row">{label}</th>(.*?)</tr>', page)
    assert found, f"no row {label!r}"
    return re.findall(r"<td[^>]*>(.*?)</td>", found[1])


def test_before_the_first_start_nothing_is_claimed(browser: Browser, member: User) -> None:
    page = look(browser(member))
    assert "No forecast to judge yet" in page
    assert "<table" not in page
    assert "data-chart" not in page
    assert "%" not in re.sub(r"<script.*?</script>", "", page)


def test_a_few_starts_are_counted_but_not_made_into_percentages(browser: Browser, member: User) -> None:
    record("job-a", early=4, late=8, waited=6)
    record("job-b", early=4, late=8, waited=9)
    record("job-c", early=0, late=300, waited=2)
    page = look(browser(member))
    assert "2 of 3 starts came within the predicted interval" in page
    assert "0 came earlier, 1 later; median miss 1 min. 3 starts are too few to judge." in page
    assert row(page, "10 min") == ["2", "1 of 2", "0 of 2", "1 of 2", "1 min", "4 min"]
    assert row(page, "longer") == ["1", "1 of 1", "0 of 1", "0 of 1", "–", "5 h"]


def test_many_are_told_in_percent_by_how_far_ahead_they_were_told(browser: Browser, member: User) -> None:
    for number in range(12):
        record(f"job-near-{number:02}", early=2, late=5, waited=3 if number < 9 else 1)
    record("job-far", early=2, late=None, waited=500)
    page = look(browser(member))
    assert row(page, "10 min")[:4] == ["12", "75 %", "25 %", "0 %"]
    assert row(page, "open end") == ["1", "1 of 1", "0 of 1", "0 of 1", "–", "–"]
    assert "too few" not in page
    assert "10 of 13 starts" in page
    queue = browser(member).get("/queue/").content.decode()
    assert "77 %" in queue
    assert 'href="/queue/forecasts/"' in queue


def test_the_plot_has_each_start_with_its_interval_the_nearest_first(browser: Browser, member: User) -> None:
    record("job-far", early=60, late=120, waited=30)
    record("job-open", early=1, late=None, waited=2)
    record("job-near", early=0, late=1, waited=5)
    page = look(browser(member))
    found = re.search(r'<script[^>]*type="application/json">(.*?)</script>', page)
    assert found
    early, late, waited = json.loads(found[1])["series"]
    assert early["y"] == [1, 3600, 60], "a logarithmic axis begins at a second"
    assert (late["y"], late["low"]) == ([60, 7200, None], early["y"])
    assert (waited["y"], waited["came"]) == ([300, 1800, 120], ["later", "earlier", "held"])


def test_who_waits_longer_than_the_latest_told_is_counted_though_no_start_shows_it(
    browser: Browser, owner: User, member: User
) -> None:
    waiting = submit(owner, 4)
    record(waiting.id, early=1, late=2, waited=None)
    record("job-cancelled", early=1, late=2, waited=None)
    page = look(browser(member))
    assert "1 pending job has already waited longer than predicted" in page
    Prediction.objects.filter(job_id=waiting.id).update(late_ms=now_ms() + HOUR_MS)
    assert "already waited longer" not in look(browser(member))


def test_the_farthest_off_are_named_to_those_who_may_see_them(
    browser: Browser, owner: User, outsider: User
) -> None:
    late, in_time = submit(owner, 1), submit(owner, 1)
    tick()
    record(late.id, early=4, late=8, waited=68)
    record(in_time.id, early=4, late=8, waited=5)
    mine = look(browser(owner))
    assert f'href="/jobs/{late.id}/"' in mine
    assert in_time.id not in mine
    assert "in 4 min to 8 min" in mine
    assert re.search(r">1 h<[^>]*> later<", mine)
    others = look(browser(outsider))
    assert late.id not in others
    assert "a job of vision" in others


def test_two_hundred_starts_take_as_many_queries_as_two(browser: Browser, owner: User) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as made:
            look(client)
        return len(made)

    client = browser(owner)
    for number in range(2):
        record(f"job-{number}", early=1, late=2, waited=9)
    look(client)
    few = queries()
    for number in range(2, 230):
        record(f"job-{number}", early=1, late=2, waited=9)
    assert queries() == few
    assert "0 of 200 starts" in look(client)


def submit(who: User, gpus: int, **changes: Any) -> Job:
    return jobs.submit(actor_of(who), {**SPEC, "num_gpus": gpus, **changes})[0]


@pytest.mark.parametrize(
    ("early", "late", "told"),
    [
        (128, 133, "in about 2 h 10 min"),
        (128, 150, "in 2 h 10 min to 2 h 30 min"),
        (0, 30, "within 30 min"),
        (300, 310, "in about 5 h"),
    ],
)
def test_an_interval_whose_ends_are_told_alike_is_told_as_one_moment(
    early: int, late: int, told: str
) -> None:
    assert forecasts.in_words(early * MINUTE_MS, late * MINUTE_MS, 0) == told
