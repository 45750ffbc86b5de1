"""A limit, edited by the lead in the browser, stands in the member's way; with all the numbers."""

import re

from playwright.sync_api import Page, expect

from tests.e2e.people import People
from tests.e2e.site import Site


def test_a_lead_lowers_the_quota_and_the_members_next_job_is_refused_with_the_numbers(
    people: People, site: Site
) -> None:
    people.tolerate("status of 422")  # the form that is refused
    lead, member = people.come("alice"), people.come("bob")
    member.goto("/jobs/submit/")
    set_quota(lead, guaranteed=2, maximum=2, reason="the others need the cluster")
    try:
        submit_four(member)
        expect(member.get_by_role("alert")).to_contain_text("Would exceed quota: 4/2 slots of cpu")
        expect(member.locator("#check")).to_contain_text(re.compile(r"Quota left\s*2 of 2"))
        assert all(job.name != "too-wide" for job in site.bob.jobs())
        lead.goto("/audit/")
        row = lead.locator("tr", has_text="the others need the cluster")
        expect(row).to_have_count(1)
        expect(row).to_contain_text("alice")
        expect(row).to_contain_text(re.compile("quota", re.IGNORECASE))
    finally:
        set_quota(lead, guaranteed=4, maximum=8, reason="all clear")


def set_quota(page: Page, guaranteed: int, maximum: int, reason: str) -> None:
    page.goto("/teams/vision/")
    page.locator("tr[data-key=limit-cpu]").get_by_role("button", name="Edit").click()
    form = page.get_by_role("dialog")
    form.get_by_label("Guaranteed").fill(str(guaranteed))
    form.get_by_label("Maximum, with borrowing").fill(str(maximum))
    form.get_by_label("Why").fill(reason)
    form.get_by_role("button", name="Save quota").click()
    row = page.locator("tr[data-key=limit-cpu]")
    expect(row).to_contain_text(f"of {maximum}")
    expect(page.locator("#changes")).to_contain_text(reason)


def submit_four(page: Page) -> None:
    page.get_by_label("Name", exact=True).fill("too-wide")
    page.get_by_label("Command", exact=True).fill("train.py")
    page.get_by_label("CPU slots", exact=True).fill("4")
    expect(page.locator("#check")).to_contain_text("Would exceed quota: 4/2 slots of cpu")
    page.get_by_role("button", name="Submit job").click()
