"""What operators, leads and members do to what runs."""

import hashlib
import re

import psutil
from playwright.sync_api import Page, expect

from tests.e2e.people import People, confirm, stay, stayed
from tests.e2e.site import Site, until

SECRET = "correct-horse-battery-staple"


def test_an_admin_drains_a_node_and_resumes_it(people: People, site: Site) -> None:
    page = people.come("root")
    page.goto("/nodes/")
    stay_after = page.locator("tr", has_text="node-1").locator(".state")
    page.get_by_role("button", name="Drain node-1").click()
    confirm(page, "Drain node-1")
    expect(stay_after).to_have_text("drained")
    job = site.script("avoids-it", "speak.py", environment={"LAUNCH_CODE": "none"})
    assert site.finished(job.id).state == "succeeded"
    assert all("node-1" not in event["cause"] for event in site.bob.events(job.id))
    page.get_by_role("button", name="Resume node-1").click()
    expect(stay_after).to_have_text("ready")
    page.get_by_role("link", name="node-1", exact=True).click()
    expect(page.locator("#events")).to_contain_text(re.compile("drain", re.IGNORECASE))


def test_a_cancelled_job_leaves_no_process_behind(people: People, site: Site) -> None:
    job = site.script("unwanted", "steady.py", num_gpus=4)
    page = people.come("bob")
    page.goto(f"/jobs/{job.id}/")
    stay(page)
    site.reached(job.id, 3)
    roots = site.processes(job.id)
    assert len(roots) == 2
    everybody = [each for root in roots.values() for each in (root, *root.children(recursive=True))]
    assert len(everybody) >= 6  # on each node the launcher, the script and its child
    page.get_by_role("button", name="Cancel", exact=True).click()
    confirm(page, "Cancel the job")
    expect(page.locator("#job-head .head .state")).to_have_text("cancelled", timeout=60_000)
    psutil.wait_procs(everybody, timeout=20)
    assert [each for each in everybody if each.is_running() and each.status() != psutil.STATUS_ZOMBIE] == []


def test_a_secret_reaches_the_process_and_nobody_reads_it_in_the_log(people: People, site: Site) -> None:
    lead = people.come("alice")
    lead.goto("/teams/vision/")
    lead.get_by_text("Set a secret").click()
    lead.get_by_label("Name", exact=True).fill("LAUNCH_CODE")
    lead.get_by_label("Value", exact=True).fill(SECRET)
    lead.get_by_role("button", name="Set secret").click()
    expect(lead.locator("#secrets")).to_contain_text("LAUNCH_CODE")
    job = site.script("knows-a-secret", "speak.py", secrets=["LAUNCH_CODE"])
    page = people.come("bob")
    page.goto(f"/jobs/{job.id}/?tab=logs")
    log = page.locator(".log .lines")
    expect(log).to_contain_text(hashlib.sha256(SECRET.encode()).hexdigest(), timeout=60_000)
    expect(log).to_contain_text(re.compile(r"the code is \*+"))
    for reader in (page, lead):
        assert_nowhere(reader, job.id)
    assert all(SECRET not in line.text for line in site.bob.logs(job.id).lines)


def assert_nowhere(page: Page, job_id: str) -> None:
    for address in (
        f"/jobs/{job_id}/",
        f"/jobs/{job_id}/?tab=spec",
        f"/jobs/{job_id}/log.txt",
        "/teams/vision/",
    ):
        assert SECRET not in page.request.get(address).text()


def test_a_page_that_loses_its_socket_says_so_and_catches_up(people: People, site: Site) -> None:
    people.tolerate("ERR_INTERNET_DISCONNECTED|WebSocket|htmx:sendError|Failed to fetch")
    page = people.come("bob")
    page.goto("/jobs/")
    stay(page)
    connection = page.locator("#connection")
    expect(connection).to_be_hidden()
    page.context.set_offline(True)
    expect(connection).to_contain_text("Connection lost")
    job = site.script("while-nobody-looked", "speak.py", environment={"LAUNCH_CODE": "none"})
    until("its end", lambda: site.bob.job(job.id).is_finished)
    expect(page.get_by_role("link", name=job.name)).to_have_count(0)
    page.context.set_offline(False)
    expect(connection).to_be_hidden()
    expect(page.locator("tr", has_text=job.name)).to_contain_text("succeeded")
    assert stayed(page)
