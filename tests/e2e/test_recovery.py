"""What dies comes back without anybody's help: a rank with its gang, an agent without its processes noticing."""

import json
import re
import shutil
import signal
import struct
from contextlib import suppress
from pathlib import Path

import psutil
from playwright.sync_api import expect

from tests.e2e.people import PHONE, People
from tests.e2e.site import SPARE, Site, until
from tests.e2e.spare_agent import NAME, SpareAgent


def steps_of(site: Site, job_id: str) -> list[int]:
    return [step for step, *_ in site.bob.metrics(job_id)["series"]["loss"]]


def test_one_rank_killed_and_the_gang_goes_on_from_the_last_checkpoint(people: People, site: Site) -> None:
    job = site.bytelm("loses-a-rank", ranks=3, steps=400, checkpoint_every=20)
    until("a checkpoint", lambda: site.bob.job(job.id).latest_checkpoint)
    victim = rank_process(site, job.id, 2)
    victim.send_signal(signal.SIGKILL)
    ended = site.finished(job.id)
    assert (ended.state, ended.restarts, ended.attempt) == ("succeeded", 1, 2), ended.reason
    assert steps_of(site, job.id) == list(range(1, 401))
    page = people.come("bob")
    page.goto(f"/jobs/{job.id}/")
    expect(page.locator("#job-head")).to_contain_text("1 restart")
    expect(page.locator("#job-head .answer")).to_contain_text("That was attempt 2")
    page.get_by_role("link", name="Timeline", exact=True).click()
    told = page.locator("#timeline")
    expect(told).to_contain_text(re.compile("SIGKILL"))
    expect(told).to_contain_text(re.compile(r"attempt 2"))
    page.set_viewport_size(PHONE)
    tables = page.locator("#start .scroll, #recovery .scroll")
    expect(tables).to_have_count(2)
    for table in tables.all():
        assert table.evaluate("it => it.scrollWidth <= it.clientWidth"), "no column is cut off on a phone"


def rank_process(site: Site, job_id: str, rank: int) -> psutil.Process:
    children = [child for root in site.processes(job_id).values() for child in root.children(recursive=True)]
    return next(child for child in children if writes(child, f"/logs/rank-{rank}.log"))


def writes(process: psutil.Process, log: str) -> bool:
    with suppress(psutil.Error):  # it has just ended
        return any(file.path.endswith(log) for file in process.open_files())
    return False


def test_a_killed_agent_adopts_what_ran_on_when_it_starts_again(
    people: People, site: Site, spare_agent: SpareAgent
) -> None:
    enough = site.scratch / "enough"
    job = site.script(
        "outlives-its-agent", "steady.py", gpu_type=SPARE, environment={"GO_ON_UNTIL": str(enough)}
    )
    page = people.come("bob")
    page.goto(f"/jobs/{job.id}/")
    site.reached(job.id, 5)
    before = site.processes(job.id)[NAME]
    spare_agent.kill()
    alone = json.loads(
        (spool := next(spare_agent.data.glob("attempts/*/spool/*.jsonl"))).read_text().splitlines()[-1]
    )
    until("steps while nobody listens", lambda: len(spool.read_text().splitlines()) > alone["step"] + 5)
    assert before.is_running()
    spare_agent.start()
    site.reached(job.id, alone["step"] + 10)
    assert site.processes(job.id)[NAME] == before
    enough.touch()
    ended = site.finished(job.id)
    assert (ended.state, ended.restarts, ended.attempt) == ("succeeded", 0, 1), ended.reason
    steps = steps_of(site, job.id)
    assert steps == list(range(1, len(steps) + 1))
    expect(page.locator("#job-head .answer")).to_contain_text("Succeeded")


def test_damaged_checkpoints_are_passed_over_for_the_newest_that_is_whole(people: People, site: Site) -> None:
    enough = site.scratch / "enough-saved"
    job = site.script("finds-damage", "saves.py", environment={"GO_ON_UNTIL": str(enough)})
    until("three checkpoints", lambda: len(site.bob.checkpoints(job.id)) == 3)
    last = weights(site, job.id, 3)
    last.write_bytes(bytes([last.read_bytes()[0] ^ 1]) + last.read_bytes()[1:])
    weights(site, job.id, 2).unlink()
    for folder in (site.platform.folder / "agents").glob("*/attempts/*/checkpoints/step-0000000[23]"):
        if job.id in (folder.parents[3] / "records" / folder.parents[1].name / "attempt.json").read_text():
            shutil.rmtree(folder)  # else its node goes on from its own copy
    enough.touch()
    ended = site.finished(job.id)
    assert (ended.state, ended.restarts, ended.attempt) == ("succeeded", 1, 4), ended.reason
    assert "went on from step 1" in [line.text for line in site.bob.logs(job.id).lines]
    page = people.come("bob")
    page.goto(f"/jobs/{job.id}/?tab=checkpoints")
    rows = page.locator("#checkpoints tbody tr")
    expect(rows.nth(0)).to_contain_text("was read twice and does not have the SHA-256")
    expect(rows.nth(1)).to_contain_text("there is no such file")
    expect(rows.nth(2)).to_contain_text("good")
    page.get_by_role("link", name="Timeline", exact=True).click()
    expect(page.locator("#timeline")).to_contain_text("checkpoint at step 3 is damaged")


def weights(site: Site, job_id: str, step: int) -> Path:
    """The file in the store with the tensor that saves.py saved at this step; its name there is its SHA-256."""
    saved = struct.pack("<4q", *[step] * 4)
    folder = site.platform.folder / "store" / "checkpoint" / job_id
    [file] = [path for path in folder.rglob("*") if path.is_file() and saved in path.read_bytes()]
    return file
