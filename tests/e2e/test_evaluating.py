"""A new version of a model is measured by a job that the platform starts, and then passes its gate."""

import json
import re

from playwright.sync_api import expect

from tests.e2e.people import People, stay, stayed
from tests.e2e.site import Site, until

POLICY = {
    "thresholds": [{"suite": "plain-text", "metric": "accuracy", "bound": 0.9, "every_slice": True}],
    "measured_by": "server",
    "self_validation": True,
    "uncontaminated": True,
}


def test_a_candidate_is_evaluated_by_the_server_and_promoted(people: People, site: Site) -> None:
    job = site.finished(site.bytelm("made-to-be-proven", 1, 10, 10).id)
    files = []
    for name in ("one.txt", "two.md", "three.txt"):
        file = site.scratch / name
        file.write_text(f"These are words of {name}.")
        files.append((name, file))
    manifest = site.bob.upload("dataset", "vision", "plain-text", files)
    data = site.bob.add_snapshot("plain-text", team="vision", manifest=manifest, purpose="evaluation").id
    site.bob.register_version("proven", team="vision", checkpoint=job.latest_checkpoint)
    page = people.come("alice")
    page.goto("/models/suites/")
    suite = {
        "name": "plain-text", "team": "vision", "command": "python evaluates.py", "code": site.scripts,
        "gpu_type": "cpu", "dataset": data, "metrics": {"accuracy": "higher"},
    }  # fmt: skip
    page.get_by_label("Fields of a job and its metrics").fill(json.dumps(suite))
    page.get_by_role("button", name="Publish").click()
    expect(page.get_by_text("plain-text v1 is published.")).to_be_visible()
    page.goto("/models/vision/proven/")
    page.get_by_label("Rules, as JSON").fill(json.dumps(POLICY))
    page.get_by_role("button", name="Set the gate").click()
    expect(page.locator("#gate")).to_contain_text("plain-text has not evaluated this version")
    stay(page)
    site.bob.register_version("proven", team="vision", checkpoint=job.latest_checkpoint)
    runs = "models/vision/proven/versions/2/evaluation-runs"
    until(
        "the evaluation has ended",
        lambda: site.bob.call("GET", runs)["results"][0]["state"] in ("done", "failed"),
    )
    [run] = site.bob.call("GET", runs)["results"]
    assert (run["state"], run["reason"], run["asked_by"]) == ("done", "", None)
    assert site.bob.job(run["job"]).user == "alice"
    standing = page.locator("#gate section", has=page.get_by_role("heading", name="Version 2"))
    expect(standing.locator("header")).to_contain_text("passes")
    expect(standing).to_contain_text("none of its 3 files in the training data")
    expect(standing).to_contain_text(re.compile(r"weights: \d+ tensors, finite and as registered"))
    assert stayed(page)
    [row] = site.bob.call("GET", "models/vision/proven/versions/2/gate")["evaluations"]
    assert (row["measured_by"], row["samples"], row["metrics"]["accuracy"]["mean"]) == ("server", 3, 1.0)
    assert set(row["slices"]) == {"ending = .txt", "ending = .md"}
    page.get_by_label("Stage of version 2").select_option("staging")
    page.get_by_role("button", name="Move version 2 to this stage").click()
    expect(page.get_by_text("Version 2 is in staging.")).to_be_visible()
