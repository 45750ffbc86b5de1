"""Two runs side by side in a browser: hide, isolate, zoom, pin, and a link that restores all of it; live growth."""

import re
import time
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.people import People
from tests.e2e.site import Site, until

STEPS = 3_000
X_OF_LINES = "plot => plot.data.filter(({ uid }) => uid.startsWith('line-')).map(({ x }) => x.length)"


def log(site: Site, run: str, steps: range, offset: float) -> None:
    now = int(time.time() * 1000)
    metrics = [
        {"key": key, "points": [[step, offset + step % 7, now + step] for step in steps]}
        for key in ("train/loss", "val/loss", "perf/step_time")
    ]
    site.bob.call("POST", f"runs/{run}/log", json={"metrics": metrics})


@pytest.fixture(scope="module")
def runs(site: Site) -> list[str]:
    made: list[Any] = [
        site.bob.call(
            "POST",
            "runs",
            json={"team": "vision", "experiment": "compared", "name": "twin", "parameters": {"lr": lr}},
        )
        for lr in (0.1, 0.2)
    ]
    for place, run in enumerate(made):
        log(site, run["id"], range(STEPS), float(place))
    return [run["id"] for run in made]


def opened(people: People, runs: list[str]) -> Page:
    page = people.come("bob")
    page.goto(f"/experiments/compare/?runs={','.join(runs)}")
    until("the first chart is drawn", lambda: lines_of(page, "val/loss"))
    return page


def lines_of(page: Page, metric: str) -> list[int]:
    """How many points each of its lines has."""
    plot = page.locator(f'[data-metric-card="{metric}"] .plot')
    return list(plot.evaluate(X_OF_LINES)) if plot.evaluate("plot => !!plot.data") else []


def test_what_is_hidden_pinned_and_smoothed_is_in_the_link(people: People, runs: list[str]) -> None:
    page = opened(people, runs)
    assert len(lines_of(page, "val/loss")) == 2
    expect(page.locator("#ranking li")).to_have_count(2)
    page.get_by_label("Show twin · lr=0.1").uncheck()
    until("one line is left", lambda: len(lines_of(page, "val/loss")) == 1)
    page.get_by_label("Strength").fill("0.5")
    card = page.locator('[data-metric-card="perf/step_time"]')
    card.get_by_label("More for").click()
    card.get_by_role("button", name="Pin").click()
    again = people.come("bob")
    again.goto(page.url)
    until("the linked page is drawn", lambda: len(lines_of(again, "val/loss")) == 1)
    expect(again.get_by_label("Show twin · lr=0.1")).not_to_be_checked()
    expect(again.get_by_label("Strength")).to_have_value("0.5")
    pinned = again.locator("[data-pinned] > section")
    metrics = pinned.evaluate_all("cards => cards.map((card) => card.dataset.metricCard)")
    assert metrics == ["val/loss", "perf/step_time"]


def test_a_zoom_fetches_finer_values_and_y_follows_it(people: People, runs: list[str]) -> None:
    page = opened(people, runs)
    coarse = lines_of(page, "val/loss")
    plot = page.locator('[data-metric-card="val/loss"] .plot')
    box = plot.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    expect(page.locator('[data-metric-card="val/loss"] .at-cursor')).to_contain_text("twin · lr=0.2")
    page.mouse.down()
    page.mouse.move(x + 60, y, steps=4)
    page.mouse.up()
    until("finer values", lambda: min(lines_of(page, "val/loss")) > max(coarse))
    seen = plot.evaluate("({ _fullLayout: { xaxis, yaxis } }) => [...xaxis.range, ...yaxis.range]")
    assert 0 < seen[0] < seen[1] < STEPS
    assert -1 < seen[2] < seen[3] < 9
    again = people.come("bob")
    again.goto(page.url)
    until(
        "the linked page has finer values", lambda: min(lines_of(again, "val/loss"), default=0) > max(coarse)
    )
    linked = again.locator('[data-metric-card="val/loss"] .plot').evaluate(
        "plot => plot._fullLayout.xaxis.range"
    )
    assert linked == pytest.approx(seen[:2], abs=1)


def test_a_running_run_goes_on_growing(people: People, site: Site, runs: list[str]) -> None:
    page = opened(people, runs)
    latest = page.locator('[data-metric-card="val/loss"] .series-list')
    expect(latest).to_contain_text("latest")
    log(site, runs[0], range(STEPS, STEPS + 1), 5_000.0)
    expect(latest).to_contain_text(re.compile(r"5,00\d"))


def test_the_data_can_be_taken_away(people: People, site: Site, runs: list[str]) -> None:
    page = opened(people, runs)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    card = page.locator('[data-metric-card="val/loss"]')
    for kind in ("PNG", "CSV"):
        card.get_by_label("More for").click()
        with page.expect_download() as download:
            card.get_by_role("button", name=f"Download as {kind}").click()
        assert download.value.suggested_filename == f"val-loss.{kind.lower()}"
    page.locator(".head summary", has_text="Share").click()
    page.locator(".head").get_by_role("button", name="Copy as curl").click()
    expect(page.locator("[data-copied]")).to_have_text("Copied to the clipboard.")
    code = page.evaluate("navigator.clipboard.readText()")
    address = re.search(r'"[^"]*/api/v1/([^"]+)"$', code)
    assert address is not None
    answer: Any = site.bob.call("GET", address.group(1))
    assert set(answer["curves"]) == set(runs)


def test_parameters_are_drawn_and_a_hidden_run_fades(people: People, runs: list[str]) -> None:
    page = people.come("bob")
    page.goto(f"/experiments/compare/?runs={','.join(runs)}&view=parameters")
    expect(page.locator("[data-parallel] polyline")).to_have_count(2)
    expect(page.get_by_text("2 runs have a value; an importance needs at least 8.")).to_be_visible()
    page.get_by_label("Show twin · lr=0.1").uncheck()
    expect(page.locator("[data-parallel] polyline.out")).to_have_count(1)


def test_charts_change_places_by_the_keyboard_and_by_dragging_and_the_link_keeps_it(
    people: People, site: Site
) -> None:
    run: Any = site.bob.call("POST", "runs", json={"team": "vision", "experiment": "arranged", "name": "one"})
    now = int(time.time() * 1000)
    keys = ("train/loss", "train/acc", "train/f1", "train/lr")
    metrics = [{"key": key, "points": [[step, step / 9, now + step] for step in range(9)]} for key in keys]
    site.bob.call("POST", f"runs/{run['id']}/log", json={"metrics": metrics})
    page = people.come("bob")
    page.goto(f"/experiments/compare/?runs={run['id']}")

    def order() -> list[str]:
        cards = page.locator("[data-section=train] [data-metric-card]")
        return [str(name) for name in cards.evaluate_all("all => all.map((card) => card.dataset.metricCard)")]

    def grip(key: str) -> Locator:
        return page.get_by_role("button", name=f"Move {key}: drag it")

    until("the charts are there", lambda: order() == ["train/acc", "train/f1", "train/lr"])
    grip("train/acc").press("ArrowRight")
    assert order() == ["train/f1", "train/acc", "train/lr"]
    expect(grip("train/acc")).to_be_focused()
    grip("train/acc").press("End")
    assert order() == ["train/f1", "train/lr", "train/acc"]
    grip("train/acc").press("ArrowRight")
    assert order() == ["train/f1", "train/lr", "train/acc"]
    grip("train/acc").drag_to(
        page.locator('[data-metric-card="train/f1"]'), target_position={"x": 20, "y": 40}
    )
    until("it was dropped", lambda: order() == ["train/acc", "train/f1", "train/lr"])
    page.get_by_label("More for train/lr").click()
    page.locator('[data-metric-card="train/lr"]').get_by_role("button", name="Move earlier").click()
    assert order() == ["train/acc", "train/lr", "train/f1"]
    expect(page).to_have_url(re.compile("order=train/acc,train/lr,train/f1"))
    page.reload()
    until("the link restores it", lambda: order() == ["train/acc", "train/lr", "train/f1"])
