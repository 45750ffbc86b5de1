"""A model goes to the nodes, is the same on each of them, and gets there whoever dies on the way."""

import hashlib
import os
import re
from pathlib import Path

from playwright.sync_api import Locator, Page, expect

from tests.e2e.people import People, stay, stayed
from tests.e2e.site import Site, until
from tests.e2e.spare_agent import NAME, SpareAgent
from trainmaster.answers import ModelVersion

SUPERVISED = [f"node-{number}" for number in range(1, 5)]
LARGE = 192 << 20


def test_a_checkpoint_becomes_a_model_and_goes_to_four_nodes(people: People, site: Site) -> None:
    job = site.trained()
    page = people.come("bob")
    page.goto(f"/jobs/{job.id}/?tab=checkpoints")
    page.get_by_role("button", name=re.compile("^Register the checkpoint")).first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Model").fill("bytes")
    dialog.get_by_role("button", name="Register version").click()
    page.wait_for_url("**/models/vision/bytes/")
    page.get_by_role("link", name="Deploy v1").click()
    choose_nodes(page, SUPERVISED)
    page.get_by_role("button", name="Deploy", exact=True).click()
    page.wait_for_url(re.compile(r"/deployments/dep-\w+/"))
    stay(page)
    expect(page.locator("#deployment-head .answer")).to_contain_text("Ready on 4 of 4 nodes")
    expect(page.locator("#workers tbody .state:visible")).to_have_text(["complete"] * 4)
    expect(page.locator("#workers progress")).to_have_count(4)
    assert stayed(page)
    sums = [site.model_sums(node, "bytes", 1) for node in SUPERVISED]
    assert sums[0]
    assert sums == [sums[0]] * 4


def test_a_version_is_compared_preheated_and_pinned_in_the_browser(people: People, site: Site) -> None:
    version, digest = large_model(site)
    page = people.come("bob")
    page.goto("/models/vision/large/")
    page.get_by_role("link", name=f"Deploy v{version.version}").click()
    choose_nodes(page, SUPERVISED[:2])
    expect(page.get_by_text(re.compile(r"to 2 nodes by \w+"))).to_be_visible()
    page.get_by_text("Compare strategies").click()
    expect(page.get_by_role("row", name=re.compile("^sequential"))).to_be_visible()
    page.get_by_role("checkbox", name=re.compile("^Preheat only")).check()
    page.get_by_role("button", name="Deploy", exact=True).click()
    page.wait_for_url(re.compile(r"/deployments/dep-\w+/"))
    expect(page.locator("#deployment-head .answer")).to_contain_text("Ready on 2 of 2 nodes")
    page.get_by_role("button", name="Pin").click()
    expect(page.get_by_role("button", name="Unpin")).to_be_visible()
    expect(page.locator("#deployment-head .head .tag")).to_have_text(["preheated", "pinned"])
    for node in SUPERVISED[:2]:
        assert site.model_sums(node, "large", version.version) == {"weights.bin": digest}
    page.goto("/deployments/history/")
    expect(page.locator("#over-the-bound")).to_contain_text("A curve needs two deployments of a model.")
    expect(page.locator("tr", has_text=f"vision/large v{version.version}")).to_contain_text("complete")


def choose_nodes(page: Page, names: list[str]) -> None:
    page.get_by_role("button", name="Choose none").click()
    expect(page.locator("[data-chosen]")).to_have_text(re.compile("^0 of "))
    for name in names:
        page.get_by_label("Find").fill(name)
        page.get_by_role("button", name="Choose the 1 found").click()
    page.get_by_label("Find").fill("")
    expect(page.locator("[data-chosen]")).to_have_text(re.compile(rf"^{len(names)} of \d+ nodes in \d+ rack"))


def test_a_node_killed_on_the_way_is_passed_by_and_fetches_the_rest_when_it_is_back(
    people: People, site: Site, spare_agent: SpareAgent
) -> None:
    version, digest = large_model(site)
    page = people.come("bob")
    # Without a cap a quick machine is done before anybody has looked.
    deployment = site.bob.deploy("vision/large", version.version, rate_cap=LARGE // 30)
    page.goto(f"/deployments/{deployment.id}/")
    stay(page)
    until("the first pieces on the node", lambda: pieces(spare_agent) > 0)
    spare_agent.kill()
    row = row_of(page, NAME)
    try:
        for name in SUPERVISED:
            there = row_of(page, name).locator(".state:visible")
            expect(there).to_have_text("complete")
        expect(row.locator(".state:visible")).not_to_have_text("complete")
        assert pieces(spare_agent) > 0
    finally:
        spare_agent.start()
    expect(row.locator(".state:visible")).to_have_text("complete")
    expect(page.locator("#deployment-head .answer")).to_contain_text("Ready on 5 of 5 nodes")
    assert stayed(page)
    for node in (*SUPERVISED, NAME):
        assert site.model_sums(node, "large", version.version) == {"weights.bin": digest}


def row_of(page: Page, node: str) -> Locator:
    return page.locator("#workers tr").filter(has=page.get_by_role("link", name=node, exact=True))


def large_model(site: Site) -> tuple[ModelVersion, str]:
    file = site.scratch / "weights.bin"
    with file.open("wb") as out:
        for _ in range(LARGE >> 20):
            out.write(os.urandom(1 << 20))
    manifest = site.bob.upload("model", "vision", "large", [("weights.bin", file)])
    registered = site.bob.register_version("large", team="vision", manifest=manifest)
    return registered, hashlib.sha256(file.read_bytes()).hexdigest()


def pieces(agent: SpareAgent) -> int:
    """How many are verified on its disk, of deliveries that are under way."""
    return sum(count(bitmap) for bitmap in agent.data.glob("transfer/man-*/pieces"))


def count(bitmap: Path) -> int:
    return sum(byte.bit_count() for byte in bitmap.read_bytes())
