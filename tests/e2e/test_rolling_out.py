"""A new version goes live on one node first, and back again when it has to, by real agents."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.people import People
from tests.e2e.site import Site, until
from trainmaster.answers import Deployment
from trainmaster.client import ApiError

NODES = ["node-1", "node-2", "node-3"]
MODEL = "served"
HOOK = 'echo "$TRAINMASTER_VERSION" >> "$TRAINMASTER_ACTIVE_LINK.log"'
CHECK = 'grep -q "$TRAINMASTER_VERSION" healthy || { echo "perplexity of version $TRAINMASTER_VERSION is 93"; exit 7; }'


@pytest.fixture
def hooks(site: Site) -> Path:
    folder = site.platform.folder / "hooks"
    for name, text in {"reload": HOOK, "check-model": CHECK}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    (folder / "healthy").write_text("1\n")
    return folder


@pytest.fixture
def old(site: Site, hooks: Path) -> Deployment:
    """Version 1 is active on three nodes."""
    row = bring(site, 1, {"hook": "reload"})
    until("version 1 is active", lambda: state(site, row) == "active")
    return row


def bring(site: Site, version: int, rollout: dict[str, object]) -> Deployment:
    file = site.scratch / f"{MODEL}-{version}.bin"
    file.write_bytes(f"weights of version {version}".encode() * 40_000)
    manifest = site.bob.upload("model", "vision", MODEL, [("weights.bin", file)])
    made = site.bob.register_version(MODEL, team="vision", manifest=manifest)
    return site.bob.deploy(f"vision/{MODEL}", made.version, nodes=NODES, rollout=rollout)


def state(site: Site, row: Deployment) -> str:
    return str((site.bob.deployment(row.id).rollout or {})["state"])


def active(site: Site) -> list[str]:
    """What a server on each node would read through the link."""
    links = [site.platform.folder / "agents" / node / "active" / "vision" / MODEL for node in NODES]
    return [(link / "weights.bin").read_bytes()[:20].decode()[-1] for link in links]


def files(site: Site) -> dict[Path, tuple[int, int]]:
    """Every file of the model on every node: which one it is, and when it was written."""
    homes = [site.platform.folder / "agents" / node / "models" / "vision" / MODEL for node in NODES]
    found = [path for home in homes for path in home.rglob("*") if path.is_file()]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def test_a_canary_fails_is_mended_promoted_and_everything_goes_back(
    people: People, site: Site, hooks: Path, old: Deployment
) -> None:
    new = bring(site, 2, {"canary": "1", "health_check": "check-model", "hook": "reload"})
    page = people.come("bob")
    page.goto(f"/deployments/{new.id}/")

    rollout = page.locator("#rollout")
    expect(rollout.locator(".answer")).to_contain_text("check-model ended with 7")
    expect(rollout).to_contain_text("perplexity of version 2 is 93")
    assert sorted(active(site)) == ["1", "1", "2"], "nobody but the canary has switched"
    expect(rollout.get_by_role("button", name="Promote")).to_have_count(0)
    with pytest.raises(ApiError, match="failed"):
        site.bob.promote(new.id)

    (hooks / "healthy").write_text("1\n2\n")
    site.bob.retry_deployment(new.id)
    expect(rollout.locator(".answer")).to_contain_text("1 canary runs it; promote it")
    confirm(page, "Promote")
    expect(page.locator("#rollout .answer")).to_contain_text("Active on 3 of 3 nodes")
    assert active(site) == ["2", "2", "2"]

    before = files(site)
    confirm(page, "Roll back")
    expect(page.locator("#rollout .answer")).to_contain_text("Rolled back: 3 of 3 nodes")
    assert active(site) == ["1", "1", "1"]
    assert files(site) == before, "no byte was moved"
    log = site.platform.folder / "agents" / "node-1" / "active" / "vision" / f"{MODEL}.log"
    assert log.read_text().split()[-3:] == ["1", "2", "1"], "the hook hears of each switch"
    events = page.locator("#events")
    for words in (
        "is not well: check-model ended with 7",
        "passed check-model",
        "runs what it ran before version 2",
    ):
        expect(events).to_contain_text(words)


def confirm(page: Page, verb: str) -> None:
    page.locator("#deployment-head, #rollout").get_by_role("button", name=verb).click()
    page.get_by_role("dialog").get_by_role("button", name=verb).click()
    page.wait_for_url(re.compile(r"/deployments/dep-\w+/"))
