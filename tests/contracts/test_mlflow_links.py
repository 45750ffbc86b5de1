"""The links that MLflow clients print, opened in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, sync_playwright

from tests.e2e.people import chromium

SCRIPT = Path(__file__).parents[2] / "static" / "js" / "mlflow-links.js"
LOGIN = "<!doctype html><title>in</title><div data-login></div>"
PAGE = "<!doctype html><title>page</title>"
MODULE = "<script type=module src=/mlflow-links.js></script>"


def answer(route: Route) -> None:
    path = route.request.url.partition("test")[2]
    if path.endswith(".js"):
        route.fulfill(path=SCRIPT, content_type="text/javascript")
    else:
        route.fulfill(body=(LOGIN if "/login/" in path else PAGE) + MODULE, content_type="text/html")


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        page = browser.new_page()
        page.route("**/*", answer)
        yield page
        browser.close()


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("#/experiments/3/runs/0123abcd", "/runs/0123abcd/"),
        ("#/experiments/3", "/experiments/3/"),
        ("#/experiments/0", "/experiments/"),
        ("#/models/wine/versions/1", "/models/"),
    ],
)
def test_a_link_of_mlflow_leads_to_our_page(page: Page, link: str, target: str) -> None:
    page.goto("about:blank")
    page.goto(f"http://links.test/{link}")
    page.wait_for_url(f"http://links.test{target}")


def test_a_link_survives_the_login(page: Page) -> None:
    page.goto("about:blank")
    page.goto("http://links.test/login/#/experiments/3/runs/0123abcd")
    page.goto("http://links.test/")
    page.wait_for_url("http://links.test/runs/0123abcd/")


@pytest.mark.parametrize("link", ["#main", "#/elsewhere", "#/experiments/3/runs/..%2F..%2Flogout"])
def test_other_fragments_lead_nowhere_harmful(page: Page, link: str) -> None:
    page.goto("about:blank")
    page.goto(f"http://links.test/{link}")
    page.wait_for_load_state("networkidle")
    assert "logout" not in page.url.partition("#")[0]
