"""axe-core on every page: with data and without, light and dark, on a desk and on a phone."""

from pathlib import Path
from typing import Any

import axe_playwright_python
from playwright.sync_api import Page, expect

from tests.e2e.people import DESKTOP, PHONE, People
from tests.e2e.site import Site

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text()
GRAVE = {"serious", "critical"}
RUN = """() => axe.run(document, {resultTypes: ["violations"], preload: false})
  .then(({violations}) => violations.map(({id, impact, nodes}) => ({id, impact, at: nodes.map(node => node.html)})))"""
# Colours depend on the theme and hardly on the width; what else a screen reader needs depends on the width alone.
LOOKS: list[tuple[dict[str, int], Any]] = [(DESKTOP, "light"), (PHONE, "dark")]
EVERYBODYS = [
    "/",
    "/cluster/",
    "/jobs/",
    "/jobs/submit/",
    "/queue/",
    "/queue/forecasts/",
    "/queue/what-if/",
    "/report/",
    "/service-levels/",
    "/service-levels/availability/",
    "/recalls/",
    "/storage/",
    "/efficiency/",
    "/planner/",
    "/planner/measured/",
    "/alerts/",
    "/alerts/silences/",
    "/alerts/rules/",
    "/alerts/rules/job_underused/",
    "/alerts/channels/",
    "/experiments/",
    "/models/",
    "/retraining/",
    "/datasets/",
    "/deployments/",
    "/deployments/history/",
    "/nodes/",
    "/nodes/map/",
    "/nodes/maintenance/",
    "/audit/",
    "/settings/",
    "/docs/errors",
]
API_REFERENCE = "/api/docs/"  # the same for everybody, and axe takes a minute for its thousands of elements
ADMINISTRATION = [f"/manage/{page}/" for page in ("users", "teams", "departments", "quotas", "prices")]


def grave(page: Page) -> list[str]:
    """What axe finds on the page as it stands, in all its looks."""
    page.evaluate(AXE)
    found = []
    for size, theme in LOOKS:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        found += [
            f"{page.url} {theme} {size['width']}: {one['id']} {one['at'][:3]}"
            for one in page.evaluate(RUN)
            if one["impact"] in GRAVE
        ]
    return found


def inspect(page: Page, addresses: list[str]) -> list[str]:
    found = []
    for address in addresses:
        page.set_viewport_size(DESKTOP)
        page.goto(address)
        expect(page.locator("main")).to_be_visible()
        found += grave(page)
    return found


def test_nothing_grave_on_pages_with_data(people: People, site: Site) -> None:
    job = site.trained()
    models = site.bob.models() or [
        site.bob.register_version("bytes", team="vision", checkpoint=job.latest_checkpoint)
    ]
    deployments = site.bob.deployments() or [site.bob.deploy(models[0].model, models[0].version)]
    page = people.come("alice", bypass_csp=True)
    page.goto("/experiments/")
    experiment = page.get_by_role("link", name="bytelm", exact=True).get_attribute("href")
    runs = ",".join(one.id for one in site.bob.jobs(state="succeeded", limit=2))
    addresses = [
        *EVERYBODYS,
        *(
            f"/jobs/{job.id}/{tab}"
            for tab in ("", "?tab=logs", "?tab=timeline", "?tab=checkpoints", "?tab=efficiency", "?tab=spec")
        ),
        *(f"/jobs/submit/?clone={job.id}", str(experiment)),
        *(
            f"/experiments/compare/?runs={runs}&view={view}"
            for view in ("charts", "parameters", "table", "code")
        ),
        *(
            f"/models/{models[0].model}/",
            f"/retraining/{models[0].model}/",
            f"/deployments/{deployments[0].id}/",
            f"/nodes/{site.node_id('node-1')}/",
        ),
        *(f"/teams/vision/{section}" for section in ("", "share/", "members/", "costs/", "secrets/")),
    ]
    assert inspect(page, addresses) == []


def test_nothing_grave_on_pages_that_are_empty(people: People) -> None:
    page = people.come("carol", bypass_csp=True)
    assert inspect(page, [*EVERYBODYS, "/experiments/compare/", "/teams/nlp/", "/jobs/?q=nothing"]) == []


def test_nothing_grave_where_people_operate_err_or_have_not_signed_in(people: People) -> None:
    people.tolerate("status of (404|422)")
    page = people.come("root", bypass_csp=True)
    found = inspect(page, ["/nodes/", "/nodes/tokens/", "/no-such-page/", API_REFERENCE, *ADMINISTRATION])
    member = people.come("bob", bypass_csp=True)
    member.goto("/jobs/submit/")
    member.get_by_label("Name", exact=True).fill("Not A Name!")
    member.get_by_label("Command", exact=True).fill("train.py")
    member.get_by_label("CPU slots", exact=True).fill("99")
    member.get_by_role("button", name="Submit job").click()
    expect(member.get_by_role("alert")).to_be_visible()
    found += grave(member)
    member.context.clear_cookies()
    member.goto("/login/")
    assert found + grave(member) == []
