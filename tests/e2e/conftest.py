"""One platform for all of these tests, stopped with all that trains at the end; evidence of what failed stays."""

import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.e2e.people import PATIENCE_MS, People, chromium
from tests.e2e.site import PATIENCE, Site, until
from tests.e2e.spare_agent import NAME, SpareAgent
from tests.support import surroundings
from webapp.operations.platform_process import PlatformProcess
from webapp.operations.programs import ROOT

RESULTS = ROOT / "test-results"
HERE = Path(__file__).parent
TEST_SECONDS = 4 * PATIENCE  # one wait that is never met tells what for, before the test is ended
FAILED = pytest.StashKey[bool]()
# What makes data comes before what uses it; each also runs alone and then makes its own.
ORDER = (
    "submitting",
    "comparing",
    "reporting",
    "quotas",
    "deploying",
    "evaluating",
    "rolling_out",
    "recovery",
    "surviving",
    "operating",
    "sweeping",
    "outsider",
    "accessibility",
    "page_weight",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = [index for index, item in enumerate(items) if HERE in item.path.parents]
    ours = sorted((items[index] for index in places), key=lambda item: _place(item.path.stem))
    for index, item in zip(places, ours, strict=True):
        item.add_marker(pytest.mark.slow)
        item.add_marker(pytest.mark.timeout(TEST_SECONDS))
        items[index] = item


def _place(stem: str) -> int:
    return ORDER.index(stem.removeprefix("test_"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
        site = getattr(item, "funcargs", {}).get("site")
        if site is not None:
            report.sections.append(("The end of the platform's logs", site.logs()))
    return report


@pytest.fixture(scope="package")
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-e2e-"))
    folder.chmod(0o711)  # as root, PostgreSQL runs under an account without rights and must pass
    scratch = folder / "scratch"
    scratch.mkdir()
    failures = request.session.testsfailed
    with surroundings.of_a_stranger(), (folder / "output").open("wb") as output:
        platform = PlatformProcess.start(
            folder / "platform",
            "--agents",
            "4",
            "--slots",
            "2",
            "--port",
            "0",
            seconds=PATIENCE,
            output=output,
        )
        try:
            site = Site(platform, scratch)
            site.sign_up()
            yield site
        finally:
            platform.stop(training_too=True)
            if request.session.testsfailed > failures:
                shutil.copytree(folder / "platform" / "logs", RESULTS / "logs", dirs_exist_ok=True)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="package")
def spare_agent(site: Site) -> Iterator[SpareAgent]:
    """A fifth node, ready, of a type of its own."""
    agent = SpareAgent(site.platform)
    agent.start()
    try:
        until(f"{NAME} is ready", lambda: any(node.hostname == NAME for node in site.bob.nodes()))
        yield agent
    finally:
        agent.stop()


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    # Of the package, not of the session: while Playwright runs, no other test may have an event loop.
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        yield browser
        browser.close()


@pytest.fixture
def people(request: pytest.FixtureRequest, browser: Browser, site: Site) -> Iterator[People]:
    people = People(browser, site)
    yield people
    try:
        complaints = people.unexpected()
        if complaints or request.node.stash.get(FAILED, False):
            people.keep_evidence(RESULTS / re.sub(r"\W+", "-", request.node.name))
        assert not complaints, "\n".join(complaints)
    finally:
        people.leave()
