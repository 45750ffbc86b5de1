"""An experiment's table and a report about it, by keyboard; and a link for readers without account."""

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.e2e.people import DESKTOP, People
from tests.e2e.site import Site, until
from tests.e2e.test_accessibility import grave

RUNS = 60  # more than one stretch of the table
REPORT = """\
# What helps

```chart
experiment: reported
metric: val/loss
title: Validation loss
most: 3
```

```runs
experiment: reported
columns: params.lr, metrics.val/loss
order: metrics.val/loss
```
"""


@pytest.fixture(scope="module")
def experiment(site: Site) -> str:
    """Its address."""
    now = int(time.time() * 1000)
    made: Any = {}
    for number in range(RUNS):
        body = {"lr": number + 1, "optimizer": "sgd" if number % 2 else "adamw", "depth": 2}
        made = site.bob.call(
            "POST",
            "runs",
            json={
                "team": "vision",
                "experiment": "reported",
                "name": f"run-{number:02}",
                "parameters": body,
                "tags": {"stage": "prod"} if number < 3 else {},
            },
        )
        points = [[step, number + 1 / step, now + step] for step in range(1, 9)]
        log = {"metrics": [{"key": "val/loss", "points": points}]}
        site.bob.call("POST", f"runs/{made['id']}/log", json=log)
    return f"/experiments/{made['experiment_id']}/"


def names(page: Page) -> list[str]:
    return page.locator("#run-table tbody th.name a").all_inner_texts()


def test_a_table_is_filtered_sorted_and_grouped_by_keyboard_and_its_address_restores_it(
    people: People, experiment: str
) -> None:
    page = people.come("bob")
    page.goto(experiment)
    box = page.get_by_label("Filter", exact=True)
    box.fill("params.lr <= 12 ")
    box.press("Escape")
    box.press("Enter")
    expect(page.locator("#run-table tbody th.name")).to_have_count(12)
    page.locator("#run-table").get_by_role("link", name="lr", exact=True).press("Enter")
    expect(page.locator("#run-table th[aria-sort]")).to_contain_text("lr")
    first = names(page)[0]
    assert first in ("run-00", "run-11")
    page.get_by_text("Columns", exact=True).press("Enter")
    page.get_by_role("checkbox", name="optimizer").check()
    page.get_by_role("button", name="Show columns").press("Enter")
    expect(page.locator("#run-table thead")).to_contain_text("optimizer")
    again = people.come("bob")
    again.goto(page.url)
    expect(again.locator("#run-table tbody th.name")).to_have_count(12)
    assert names(again)[0] == first
    expect(again.locator("#run-table thead")).to_contain_text("optimizer")
    again.get_by_label("Group by").select_option("params.optimizer")
    expect(again.locator("#runs")).to_contain_text("mean of lowest")
    expect(again.get_by_role("link", name="adamw")).to_be_visible()
    assert "group=params.optimizer" in again.url


def test_a_view_is_saved_and_opened_again(people: People, experiment: str) -> None:
    page = people.come("bob")
    page.goto(f"{experiment}?filter=tags.stage+%3D+%22prod%22")
    expect(page.locator("#run-table tbody th.name")).to_have_count(3)
    page.get_by_text("Saved views", exact=True).click()
    page.get_by_label("Save this table as").fill("production")
    page.get_by_role("button", name="Save view").click()
    page.goto(experiment)
    page.get_by_text("Saved views", exact=True).click()
    page.get_by_role("link", name="production").click()
    expect(page.locator("#run-table tbody th.name")).to_have_count(3)
    expect(page.get_by_label("Filter", exact=True)).to_have_value('tags.stage = "prod"')


def test_rows_beyond_the_first_stretch_change_live(people: People, site: Site, experiment: str) -> None:
    page = people.come("bob")
    page.goto(experiment)
    row = page.locator("#run-table tr", has_text="run-00")
    expect(row).to_have_count(1)  # fetched before one has scrolled there
    row.scroll_into_view_if_needed()
    expect(row).to_contain_text("running")
    run = row.locator("[data-pick]").get_attribute("value")
    site.bob.call("POST", f"runs/{run}/finish", json={"state": "succeeded"})
    expect(row).to_contain_text("succeeded")


def test_a_report_is_written_with_a_live_chart_and_read_by_a_link_until_it_expires(
    people: People, site: Site, browser: Browser, experiment: str
) -> None:
    people.tolerate("status of 404")  # the example's metric, which no run reports; and the expired link
    page = people.come("bob")
    page.goto("/reports/new/")
    page.get_by_label("Title").fill("Rates")
    page.get_by_label("Text").fill(REPORT)
    page.get_by_role("button", name="Preview").press("Enter")
    expect(page.locator("#preview")).to_contain_text("Validation loss")
    page.get_by_role("button", name="Save").press("Enter")
    expect(page.get_by_role("heading", name="Rates", level=1)).to_be_visible()
    until("the chart is drawn", lambda: lines(page) == 3)
    page.get_by_role("button", name="Create link").click()
    link = page.locator("#new-link").inner_text()
    reader = browser.new_context(viewport=DESKTOP).new_page()
    people.contexts["reader"] = reader.context
    reader.goto(link)
    until("the shared chart is drawn", lambda: lines(reader) == 3)
    expect(reader.get_by_role("row")).to_have_count(21)
    expect(reader.get_by_role("link")).to_have_count(0)
    expire = "from webapp.reports.models import ReadLink; ReadLink.objects.update(expires_ms=1)"
    site.platform.manage("shell", "--no-imports", "-c", expire)
    reader.reload()
    expect(reader.locator("body")).to_contain_text("This link has expired or was revoked")


def lines(page: Page) -> int:
    drawn = "plot => (plot.data ?? []).filter(({ uid }) => uid.startsWith('line-')).length"
    return int(page.locator(".plot").first.evaluate(drawn))


def test_nothing_grave_on_an_experiment_and_its_reports(people: People, experiment: str) -> None:
    people.tolerate(
        "status of (404|422)"
    )  # the metric of the example, which no run reports; the wrong filter
    page = people.come("bob", bypass_csp=True)
    found = []
    page.goto("/reports/")
    report = page.get_by_role("link", name="Rates").first
    addresses = [str(report.get_attribute("href")), "edit/"] if report.count() else []
    for address in (
        experiment,
        f"{experiment}?group=params.optimizer",
        f"{experiment}?filter=metrics.loss+%3C",
        "/reports/new/",
        *(re.sub("^edit/", f"{addresses[0]}edit/", address) for address in addresses),
    ):
        page.set_viewport_size(DESKTOP)
        page.goto(address)
        expect(page.locator("main")).to_be_visible()
        found += grave(page)
    assert found == []
