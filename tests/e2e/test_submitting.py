"""From the form to two runs side by side, in one browser."""

import io
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

from playwright.sync_api import APIResponse, Locator, Page, Route, expect

from tests.e2e.people import People, figure, headline, moves, stay, stayed
from tests.e2e.site import EXAMPLE, Site, until
from trainmaster import bundle

STEPS = 60
SETTINGS = f"steps={STEPS}\nlayers=1\nwidth=32\nbatch=16\neval_batch=16\neval_every=20\nwarmup=5"

# Beside train.py: however quick or slow the machine is, it trains while somebody watches, and not for long after that.
WATCHED = """
import pathlib, time
import train, trainmaster

watched, log = pathlib.Path({watched!r}), trainmaster.log


def log_slowly(step, **values):
    log(step, **values)
    deadline = time.monotonic() + (8 if step > {quick} else 0)
    while time.monotonic() < deadline and not watched.exists():
        time.sleep(0.1)


trainmaster.log = log_slowly
train.main()
"""


def test_a_member_submits_watches_it_live_and_compares_it_with_a_second_run(
    people: People, site: Site
) -> None:
    watched = site.scratch / "watched"
    upload_code(site, watched)
    assert site.dataset
    page = people.come("bob")
    page.goto("/")
    page.get_by_role("link", name="New job").click()
    fill_in(page)
    page.get_by_role("button", name="Submit job").click()
    page.wait_for_url(re.compile(r"/jobs/job-\w+/"))
    watch(page, watched)
    page.get_by_role("link", name="Clone and edit").click()
    page.get_by_label("Name", exact=True).fill("slow")
    settings = page.get_by_label("Hyperparameters", exact=True)
    settings.fill(f"{settings.input_value()}\nlr=0.0003")
    page.get_by_role("button", name="Submit job").click()
    expect(page.get_by_role("heading", name="slow")).to_be_visible()
    expect(state_of(page)).to_have_text("succeeded")
    compare(page)


def test_a_member_runs_a_script_of_their_own_that_the_form_uploads(people: People, site: Site) -> None:
    """The form is filled in without waiting for the upload: the checks of other fields do not replace it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("mine.py", "import trainmaster\n\ntrainmaster.log(1, loss=0.5)\n")
    page = people.come("bob")
    page.goto("/jobs/submit/")
    page.get_by_label("Name", exact=True).fill("my-script")
    page.get_by_label("Upload code").set_input_files(
        {"name": "mine.zip", "mimeType": "application/zip", "buffer": archive.getvalue()}
    )
    page.get_by_label("Command", exact=True).fill("python mine.py")
    expect(page.locator("#check")).to_contain_text("It would start at once")
    page.get_by_role("button", name="Submit job").click()
    page.wait_for_url(re.compile(r"/jobs/job-\w+/"))
    expect(state_of(page)).to_have_text("succeeded")


def upload_code(site: Site, watched: Path) -> None:
    code = site.scratch / "watched-code"
    shutil.copytree(EXAMPLE, code)
    (code / "watched.py").write_text(WATCHED.format(watched=str(watched), quick=STEPS // 4))
    site.bob.upload("code", "vision", "watched", bundle.data_files(code))


def fill_in(page: Page) -> None:
    """The panel answers at each change: what is left of the quota, what it costs, what is in the way."""
    panel = page.locator("#check")
    page.get_by_label("Name", exact=True).fill("quick")
    page.get_by_label("Command", exact=True).fill("watched.py")
    expect(panel).to_contain_text("The command runs watched.py, but the job has no code")
    page.get_by_label("Code", exact=True).select_option(label="watched of vision")
    slots = page.get_by_label("CPU slots", exact=True)
    slots.fill("9")
    expect(panel).to_contain_text("Would exceed quota: 9/8 slots of cpu")
    slots.fill("4")
    expect(panel).to_contain_text("It would start at once")
    expect(panel).to_contain_text(
        re.compile(r"This job\s*4 slots.*Quota left\s*8 of 8\s*Cost per hour\s*\$0\.16", re.DOTALL)
    )
    for section in ("Checkpoints", "Experiment", "Data"):
        page.locator("summary").get_by_text(section, exact=True).click()
    page.get_by_label("Dataset", exact=True).fill("python-stdlib v1 of vision")
    page.get_by_label("Purpose", exact=True).fill("training")
    page.get_by_label("Save every N steps").fill("20")
    page.get_by_label("Experiment", exact=True).fill("bytelm")
    page.get_by_label("Hyperparameters", exact=True).fill(SETTINGS)


def watch(page: Page, watched: Path) -> None:
    stay(page)
    expect(state_of(page)).to_have_text(re.compile("running|checkpointing"))
    told = page.locator("#side .tl li")
    before = told.count()
    points = page.locator('figure[data-metric="loss"] .plot')
    expect(points).to_have_attribute("aria-label", re.compile(r"\d"))
    early = drawn(points)[1]
    older = held_answer(page, points)
    late_values_take_no_newer_one_away(page, points)
    moves(headline(page), figure(page, "Loss"))
    watched.touch()
    expect(state_of(page)).to_have_text("succeeded")
    expect(figure(page, "Step")).to_have_text(re.compile(rf"^\s*{STEPS}\s"))
    lines_said_after_an_answer_are_read_when_it_comes(page, older)
    assert 0 < early < STEPS
    until("the whole curve", lambda: drawn(points) == [list(range(1, STEPS + 1)), STEPS])
    assert told.count() > before
    expect(told.first).to_contain_text("succeeded")
    assert stayed(page)


def held_answer(page: Page, points: Locator) -> list[tuple[Route, APIResponse]]:
    """Of the log: one that has been given and has not come."""
    held: list[tuple[Route, APIResponse]] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append((route, route.fetch()))

    page.route(re.compile("/log/"), hold)  # for good: a browser without routes lets go of what they hold
    until(
        "the page has read the log", lambda: drawn(points) and held
    )  # whoever asks the page serves its routes
    return held


def lines_said_after_an_answer_are_read_when_it_comes(
    page: Page, older: list[tuple[Route, APIResponse]]
) -> None:
    last = "held-out bits per byte"
    source = page.locator("[data-logs]").get_attribute("data-src") or ""
    until("the job has said all", lambda: last in page.request.get(source).text())
    [(route, answer)] = older
    # Only hints tell that there is more, as when the last line of the answer was the last one then.
    route.fulfill(response=answer, json={**answer.json(), "more": False})
    expect(page.locator(".log .line", has_text=last)).to_be_visible()


def late_values_take_no_newer_one_away(page: Page, points: Locator) -> None:
    """Values come while those of the curve, asked for before them, are still on their way."""
    held: list[tuple[Route, APIResponse]] = []
    page.route(
        re.compile(r"/experiments/curves/.*key=loss"),
        lambda route: held.append((route, route.fetch())),
        times=1,
    )
    page.evaluate("document.dispatchEvent(new CustomEvent('trainmaster:catch-up'))")
    until("the values of the curve are asked for", lambda: drawn(points) and held)
    [(route, late)] = held
    [series] = next(chart["series"] for chart in late.json()["charts"] if chart["key"] == "loss")
    until("a value comes after them", lambda: drawn(points)[1] > len(series["x"]))
    before = drawn(points)[0]
    points.evaluate(
        "plot => { window.settled = new Promise((done) => plot.once('plotly_react', () => done())) }"
    )
    route.fulfill(response=late)
    page.evaluate("() => window.settled")
    assert set(before) <= set(drawn(points)[0])


def compare(page: Page) -> None:
    page.get_by_role("link", name="Experiments", exact=True).click()
    page.get_by_role("link", name="bytelm", exact=True).click()
    for run in ("quick", "slow"):
        page.get_by_label(f"Select {run}", exact=True).check()
    page.get_by_role("button", name="Compare 2 runs").click()
    expect(page.get_by_role("heading", name="Compare 2 runs")).to_be_visible()
    plot = page.locator("figure[data-chart] .plot").first
    lines = "plot => plot.data?.filter(({ uid }) => uid.startsWith('line-')).length"
    until("both curves are drawn", lambda: plot.evaluate(lines) == 2)
    page.get_by_role("link", name="Table", exact=True).click()
    table = (
        page.get_by_role("region")
        .or_(page.locator("section"))
        .filter(has_text="Differences")
        .locator("table")
    )
    expect(table.locator("th.mono")).to_have_text(["lr"])
    assert set(table.locator("tr", has=page.locator("th.mono")).locator("td").all_inner_texts()) == {
        "0.003",
        "0.0003",
    }
    expect(
        table.locator("tr", has_text="lowest loss").locator("td", has_text=re.compile(r"\d\.\d"))
    ).to_have_count(2)


def state_of(page: Page) -> Locator:
    return page.locator("#job-head .head .state")


def drawn(plot: Locator) -> list[Any]:
    """The steps of its curve, and how many values stand over them."""
    return list(plot.evaluate("({data: [curve]}) => [curve.x, curve.y.length]"))
