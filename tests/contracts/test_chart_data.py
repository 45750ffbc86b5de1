"""What the browser makes of a curve, compared with the rule in the core, in a real browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Page, Route, sync_playwright

from platform_core.experiments.series import KINDS, smoothed
from tests.e2e.people import chromium

SCRIPTS = Path(__file__).parents[2] / "static" / "js"
VALUES = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


def answer(route: Route) -> None:
    script = SCRIPTS / route.request.url.rpartition("/")[2]
    if script.suffix == ".js":
        route.fulfill(path=script, content_type="text/javascript")
    else:
        route.fulfill(body="<!doctype html><title>charts</title>", content_type="text/html")


@contextmanager
def importing(script: str, name: str) -> Iterator[Page]:
    """An empty page that has this script of ours under this name."""
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        page = browser.new_page()
        page.route("**/*", answer)
        page.goto("http://scripts.test/")
        page.evaluate(f"async () => {{ window.{name} = await import('/{script}'); }}")
        yield page
        browser.close()


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with importing("chart-data.js", "data") as page:
        yield page


DRAW = """([x, values, counts, kind, strength, live]) => {
  const series = { name: "run", key: "loss", subject: "job:1", x, y: values, counts };
  const chart = data.prepare({ x: { kind: "step" }, y: {}, series: [series] }, { kind, strength });
  const points = live.map((value, number) => ({ step: x.at(-1) + 1 + number, values: { loss: value } }));
  data.grow(chart, "job:1", points);
  data.prepare(chart, chart.drawing);
  return { x: series.x, y: series.y, raw: series.raw };
}"""


@settings(max_examples=60)
@given(VALUES, st.sampled_from(KINDS), st.floats(0, 0.99), st.data())
def test_the_browser_smooths_as_the_core_does_and_live_points_go_on_from_there(
    page: Page, values: list[float], kind: str, strength: float, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(1, len(values) - 1))
    counts = data.draw(st.lists(st.integers(1, 9), min_size=begin, max_size=begin))
    gaps = data.draw(st.lists(st.integers(1, 50), min_size=begin, max_size=begin))
    x = [float(sum(gaps[: place + 1])) for place in range(begin)]
    drawn = page.evaluate(DRAW, [x, values[:begin], counts, kind, strength, values[begin:]])
    counts += [1] * (len(values) - begin)
    expected = smoothed(kind, strength, drawn["x"], values, counts, drawn["x"][-1] - drawn["x"][0])
    assert drawn["y"] == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert drawn["raw"] == values
    assert len(drawn["x"]) == len(drawn["y"])


REFINE = """([base, fine]) => {
  const series = { key: "loss", x: base, y: base, counts: base.map(() => 9), fine: { x: fine, y: fine } };
  data.prepare({ x: { kind: "step" }, y: {}, series: [series] }, {});
  return series.x;
}"""


@pytest.mark.parametrize(
    ("fine", "drawn"),
    [
        ([20, 21, 22, 29], [0, 10, 20, 21, 22, 29, 30, 40]),
        ([0, 1], [0, 1, 10, 20, 30, 40]),
        ([35, 44], [0, 10, 20, 30, 35, 44]),
        ([], [0, 10, 20, 30, 40]),
    ],
)
def test_a_window_is_finer_than_what_lies_around_it(page: Page, fine: list[int], drawn: list[int]) -> None:
    assert page.evaluate(REFINE, [[0, 10, 20, 30, 40], fine]) == drawn


def extent(page: Page, begin: float, end: float, **chart: Any) -> Any:
    series = {"x": [0, 10, 20, 30, 40], "y": [100.0, 8.0, 2.0, 3.0, -4.0]}
    whole = {"x": {"kind": "step"}, "y": chart, "series": [series]}
    return page.evaluate("([chart, from, to]) => data.extent(chart, from, to)", [whole, begin, end])


def test_a_zoom_shows_the_values_between_its_ends(page: Page) -> None:
    assert extent(page, 10, 30) == [2, 8]
    assert extent(page, 12, 18) == pytest.approx([3.2, 6.8])
    assert extent(page, 30, 40, log=True) == [3, 3]
    assert extent(page, 50, 60) is None


def test_clipped_outliers_do_not_stretch_the_axis(page: Page) -> None:
    values = [*range(1, 100), 1e9]
    script = """(y) => data.extent({ x: {}, y: {}, drawing: { clip: 1 }, series: [{ x: y, y }] })"""
    assert page.evaluate(script, values) == [2, 99]


NEWEST = """([kind, strength, live]) => {
  const series = { name: "run", key: "loss", subject: "job:1", x: [0, 10], y: [4, 2], counts: [9, 9], last: 1 };
  const chart = data.prepare({ x: { kind }, y: {}, series: [series] }, { kind: "exponential", strength });
  data.grow(chart, "job:1", live.map((value, at) => ({ step: 11 + at, at_ms: 11 + at, values: { loss: value } })));
  data.prepare(chart, chart.drawing);
  return data.newest(chart, series);
}"""


def test_the_newest_value_is_the_reported_one_unless_the_line_is_smoothed(page: Page) -> None:
    assert page.evaluate(NEWEST, ["step", 0, []]) == 1
    assert page.evaluate(NEWEST, ["step", 0, [0.5]]) == 0.5
    assert page.evaluate(NEWEST, ["step", 0.5, []]) > 1
    assert page.evaluate(NEWEST, ["value", 0, []]) == 2, "the last by another metric is not the newest"
