"""What operators, leads and members do to what runs."""

import hashlib
import re

import psutil
from playwright.sync_api import Page, expect

from tests.e2e.cable import Cable
from tests.e2e.people import People, confirm, stay, stayed
from tests.e2e.site import Site, is_alive, until
from tests.e2e.spare_agent import in_a_shell

SECRET = "correct-horse-battery-staple"


def test_an_admin_drains_a_node_and_resumes_it(people: People, site: Site) -> None:
    page = people.come("root")
    page.goto("/nodes/")
    page.get_by_role("button", name="Drain node-1").click()
    confirm(page, "Drain node-1")
    state = page.locator("#node-head .head .state")
    expect(state).to_have_text("drained")
    stay(page)
    job = site.script("avoids-it", "speak.py", num_gpus=6, environment={"LAUNCH_CODE": "none"})
    assert site.finished(job.id).state == "succeeded"
    assert site.places(job.id) == ["node-2", "node-3", "node-4"]
    page.get_by_role("button", name="Resume").click()
    expect(state).to_have_text("ready")
    expect(page.locator("#events")).to_contain_text("drained by root")


def test_the_command_that_the_page_shows_adds_a_node(people: People, site: Site) -> None:
    page = people.come("root")
    page.goto("/nodes/tokens/")
    page.get_by_label("Name", exact=True).fill("rack 9")
    page.get_by_role("button", name="Create a token").click()
    with in_a_shell(page.locator("#new-token").inner_text(), site.scratch, hostname="node-9"):
        page.goto("/nodes/")
        expect(page.locator("tr", has_text="node-9")).to_contain_text("ready")


def test_the_search_is_worked_by_the_keyboard_alone(people: People) -> None:
    page = people.come("bob")
    page.goto("/")
    page.keyboard.press("Control+k")
    page.keyboard.type("node-")
    hits = page.locator("#found a")
    expect(hits.first).to_contain_text("node-1")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(hits.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="node-1", level=1)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("nothing-is-called-so")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Search", level=1)).to_be_visible()
    expect(page.locator("main")).to_contain_text("Nothing is called")


def test_a_cancelled_job_leaves_no_process_behind(people: People, site: Site) -> None:
    job = site.script("unwanted", "steady.py", num_gpus=4)
    page = people.come("bob")
    page.goto(f"/jobs/{job.id}/")
    stay(page)
    site.reached(job.id, 3)
    everybody = until("the launcher, the script and its child on both nodes", lambda: trees(site, job.id))
    page.get_by_role("button", name="Cancel", exact=True).click()
    confirm(page, "Cancel the job")
    expect(page.locator("#job-head .head .state")).to_have_text("cancelled")
    until("all processes of the cancelled job have ended", lambda: not any(map(is_alive, everybody)))


def trees(site: Site, job_id: str) -> list[psutil.Process]:
    """All processes of a job, as soon as each of its two nodes has at least three."""
    nodes = [[root, *root.children(recursive=True)] for root in site.processes(job_id).values()]
    complete = len(nodes) == 2 and all(len(each) >= 3 for each in nodes)
    return [process for each in nodes for process in each] if complete else []


def test_a_secret_reaches_the_process_and_nobody_reads_it_in_the_log(people: People, site: Site) -> None:
    lead = people.come("alice")
    lead.goto("/teams/vision/secrets/")
    lead.get_by_label("Name", exact=True).fill("LAUNCH_CODE")
    lead.get_by_label("Value", exact=True).fill(SECRET)
    lead.get_by_role("button", name="Set secret").click()
    expect(lead.locator("#secrets")).to_contain_text("LAUNCH_CODE")
    job = site.script("knows-a-secret", "speak.py", secrets=["LAUNCH_CODE"])
    page = people.come("bob")
    page.goto(f"/jobs/{job.id}/?tab=logs")
    log = page.locator(".log .lines")
    expect(log).to_contain_text(hashlib.sha256(SECRET.encode()).hexdigest())
    expect(log).to_contain_text(re.compile(r"the code is •••LAUNCH_CODE•••"))
    for reader in (page, lead):
        assert_nowhere(reader, job.id)
    assert all(SECRET not in line.text for line in site.bob.logs(job.id).lines)


def assert_nowhere(page: Page, job_id: str) -> None:
    for address in (
        f"/jobs/{job_id}/",
        f"/jobs/{job_id}/?tab=spec",
        f"/jobs/{job_id}/log.txt",
        "/teams/vision/secrets/",
    ):
        assert SECRET not in page.request.get(address).text()


def test_a_page_that_loses_its_socket_says_so_and_catches_up(people: People, site: Site) -> None:
    people.tolerate("ERR_|WebSocket|htmx:sendError|Failed to fetch")
    with Cable(site.port) as cable:
        page = people.come("bob")
        page.goto(f"{cable.url}/jobs/")
        stay(page)
        connection = page.locator("#connection")
        expect(connection).to_be_hidden()
        cable.cut()
        expect(connection).to_contain_text("Connection lost")
        job = site.script("while-nobody-looked", "speak.py", environment={"LAUNCH_CODE": "none"})
        assert site.finished(job.id).state == "succeeded"
        expect(page.get_by_role("link", name=job.name)).to_have_count(0)
        cable.mend()
        expect(connection).to_be_hidden()
        expect(page.locator("tr", has_text=job.name)).to_contain_text("succeeded")
        assert stayed(page)
