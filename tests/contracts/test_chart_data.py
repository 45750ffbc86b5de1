"""What the browser makes of a curve, compared with the rule in the core, in a real browser."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, Route, sync_playwright

from platform_core.experiments.series import smooth
from tests.e2e.people import chromium

SCRIPTS = Path(__file__).parents[2] / "static" / "js"
VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


def answer(route: Route) -> None:
    script = SCRIPTS / route.request.url.rpartition("/")[2]
    if script.suffix == ".js":
        route.fulfill(path=script, content_type="text/javascript")
    else:
        route.fulfill(body="<!doctype html><title>charts</title>", content_type="text/html")


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        page = browser.new_page()
        page.route("**/*", answer)
        page.goto("http://charts.test/")
        page.evaluate("async () => { window.data = await import('/chart-data.js'); }")
        yield page
        browser.close()


DRAW = """([values, means, counts, weight, live]) => {
  const x = values.map((_, place) => place);
  const series = { name: "run", key: "loss", subject: "job:1", x, y: values, means, counts };
  const chart = data.smooth({ x: { kind: "step" }, y: {}, series: [series] }, weight);
  data.grow(chart, "job:1", live.map((value, number) => ({ step: values.length + number, values: { loss: value } })));
  return { x: series.x, y: series.y, raw: series.raw };
}"""


@settings(max_examples=40)
@given(VALUES, st.floats(0, 0.99), st.data())
def test_the_browser_smooths_as_the_core_does_and_live_points_go_on_from_there(
    page: Page, values: list[float], weight: float, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(1, len(values) - 1))
    counts = data.draw(st.lists(st.integers(1, 9), min_size=begin, max_size=begin))
    means = [value / 2 for value in values[:begin]]
    drawn = page.evaluate(DRAW, [values[:begin], means, counts, weight, values[begin:]])
    live = [1] * (len(values) - begin)
    expected = smooth([*means, *values[begin:]], weight, [*counts, *live]) if weight else values
    assert drawn["y"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert drawn["raw"] == values
    assert len(drawn["x"]) == len(drawn["y"])


def extent(page: Page, begin: float, end: float, **chart: Any) -> Any:
    series = {"x": [0, 10, 20, 30, 40], "y": [100.0, 8.0, 2.0, 3.0, -4.0]}
    whole = {"x": {"kind": "step"}, "y": chart, "series": [series]}
    return page.evaluate("([chart, from, to]) => data.extent(chart, from, to)", [whole, begin, end])


def test_a_zoom_shows_the_values_between_its_ends(page: Page) -> None:
    assert extent(page, 10, 30) == [2, 8]
    assert extent(page, 12, 18) == pytest.approx([3.2, 6.8])
    assert extent(page, 30, 40, log=True) == [3, 3]
    assert extent(page, 50, 60) is None
