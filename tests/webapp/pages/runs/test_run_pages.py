"""The page of a run: what it shows, what people change on it, and the same tabs on the page of a job."""

import io
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.webapp.conftest import Cast
from tests.webapp.world import World, build, job_mapping
from webapp.accounts.models import User
from webapp.accounts.permissions import Actor
from webapp.experiments import queries, services
from webapp.experiments.models import Experiment, Run
from webapp.jobs import services as jobs

Who = Callable[[User], Actor]
Browse = Callable[[User], Client]
TABS = ("overview", "charts", "system", "artifacts", "media", "lineage")


@pytest.fixture
def alice(cast: Cast, actor: Who) -> Actor:
    return actor(cast.owner)


@pytest.fixture
def experiment(alice: Actor) -> Experiment:
    return services.create_experiment(alice, "vision", "rates")


@pytest.fixture
def run(alice: Actor, experiment: Experiment) -> Run:
    return services.create_run(
        alice, experiment, name="slow", parameters={"optimizer": {"lr": 0.25}}, tags={"stage": "dev"},
        description="# Why\n\n<script>alert(1)</script>",
    )  # fmt: skip


def page(client: Client, run: Run, tab: str = "") -> str:
    answer = client.get(f"/runs/{run.id}/?tab={tab}")
    assert answer.status_code == 200
    return str(answer.content.decode())


@pytest.mark.parametrize("tab", TABS)
def test_each_tab_of_a_fresh_run_is_shown(tab: str, run: Run, cast: Cast, browser: Browse) -> None:
    assert "slow" in page(browser(cast.viewer), run, tab)


def test_the_overview_has_parameters_tags_and_sanitised_notes(run: Run, cast: Cast, browser: Browse) -> None:
    shown = page(browser(cast.viewer), run)
    assert 'optimizer.lr</th><td class="mono wrap">0.25</td>' in shown
    assert "stage = dev" in shown
    assert "<h3>Why</h3>" in shown
    assert "<script>alert" not in shown
    assert "<form" not in shown.partition('id="run"')[2].partition("</main>")[0]  # a viewer changes nothing


def test_name_group_notes_and_tags_are_changed_on_the_page(
    run: Run, cast: Cast, browser: Browse, alice: Actor
) -> None:
    client = browser(cast.member)
    client.post(f"/runs/{run.id}/edit/", {"name": "slower", "group": "seeds", "description": "*new*"})
    client.post(f"/runs/{run.id}/tags/", {"tag": "baseline"})
    client.post(f"/runs/{run.id}/tags/", {"tag": "reason = too slow = bad"})
    client.post(f"/runs/{run.id}/tags/", {"delete": "stage"})
    changed = queries.find_run(alice, run.id)
    assert (changed.name, changed.group, changed.description) == ("slower", "seeds", "*new*")
    assert changed.tags == {"baseline": "", "reason": "too slow = bad"}


def test_a_change_that_is_refused_is_said_on_the_page(run: Run, cast: Cast, browser: Browse) -> None:
    answer = browser(cast.owner).post(f"/runs/{run.id}/edit/", {"name": ""}, follow=True)
    assert "name of the run is not valid" in answer.content.decode()


def test_a_run_is_archived_deleted_and_restored(run: Run, cast: Cast, browser: Browse, alice: Actor) -> None:
    client = browser(cast.owner)
    client.post(f"/runs/{run.id}/archive/")
    assert "This run was archived" in page(client, run)
    client.post(f"/runs/{run.id}/delete/")
    gone = page(client, run, "charts")
    assert "This run was deleted" in gone
    assert "optimizer.lr" not in gone
    client.post(f"/runs/{run.id}/restore/")
    client.post(f"/runs/{run.id}/restore/")
    restored = queries.find_run(alice, run.id)
    assert (restored.archived_ms, restored.deleted_ms) == (None, None)


def test_parent_and_children_lead_to_each_other(
    run: Run, cast: Cast, browser: Browse, alice: Actor, experiment: Experiment
) -> None:
    child = services.create_run(alice, experiment, name="fold 1", parent=run)
    assert f'<a href="/runs/{child.id}/">fold 1</a>' in page(browser(cast.viewer), run, "lineage")
    assert f'<a href="/runs/{run.id}/">slow</a>' in page(browser(cast.viewer), child, "lineage")


@pytest.fixture
def world(cast: Cast, vision: Any) -> World:
    return build(cast)


def test_the_run_of_a_job_is_shown_on_the_page_of_its_job(world: World, cast: Cast, browser: Browse) -> None:
    client = browser(cast.viewer)
    answer = client.get(f"/runs/{world.job}/?tab=artifacts")
    assert answer["Location"] == f"/jobs/{world.job}/?tab=artifacts"
    for tab in ("charts", "system", "efficiency", "artifacts", "media", "notes", "lineage"):
        shown = client.get(f"/jobs/{world.job}/?tab={tab}")
        assert shown.status_code == 200, tab
        assert "Checkpoints" in shown.content.decode()  # a tab of the job


def test_the_charts_of_a_run_stand_in_sections(world: World, cast: Cast, browser: Browse) -> None:
    points = [services.Point(key, 1, 0.5, 1) for key in ("train/loss", "val/loss", "system/gpu0/memory")]
    services.ingest(world.job, 1, points)
    client = browser(cast.viewer)
    shown = client.get(f"/jobs/{world.job}/?tab=charts").content.decode()
    assert "<h2>train</h2>" in shown
    assert "<h2>val</h2>" in shown
    assert "gpu0" not in shown
    machine = client.get(f"/jobs/{world.job}/?tab=system").content.decode()
    assert "<h2>gpu0</h2>" in machine


def test_files_are_browsed_previewed_and_saved(world: World, cast: Cast, browser: Browse) -> None:
    client = browser(cast.viewer)
    listed = client.get(f"/jobs/{world.job}/?tab=artifacts").content.decode()
    assert '<a href="?tab=artifacts&amp;folder=code">code/</a>' in listed
    folder = client.get(f"/jobs/{world.job}/?tab=artifacts&folder=code").content.decode()
    assert '<a href="?tab=artifacts&amp;file=code%2Fcode.bin">code.bin</a>' in folder
    shown = client.get(f"/jobs/{world.job}/?tab=artifacts&file=code/code.bin").content.decode()
    assert '<pre class="code file-text" tabindex="0">code</pre>' in shown  # its four bytes are text
    overview = client.get(f"/jobs/{world.job}/").content.decode()
    assert '<a href="?tab=artifacts&amp;file=code%2Fcode.bin">code.bin</a>' in overview
    saved = client.get(f"/runs/{world.job}/files/code/code.bin")
    assert (saved["Content-Type"], saved["X-Content-Type-Options"]) == ("application/octet-stream", "nosniff")
    assert saved["Content-Disposition"] == 'attachment; filename="code.bin"'
    assert client.get(f"/jobs/{world.job}/?tab=artifacts&file=code/none").status_code == 404
    assert client.get(f"/jobs/{world.job}/?tab=artifacts&file=../secret").status_code == 400


def test_an_artifact_of_one_file_stands_in_the_list_as_that_file(
    run: Run, alice: Actor, cast: Cast, browser: Browse
) -> None:
    for path in (
        "flame-1-rank-0.folded.txt/flame-1-rank-0.folded.txt",
        "plots/a.txt",
        "twice/twice",
        "twice/b",
    ):
        services.put_file(alice, run, path, io.BytesIO(b"main 1"))
    client = browser(cast.owner)
    listed = client.get(f"/runs/{run.id}/?tab=artifacts").content.decode()
    flame = "?tab=artifacts&amp;file=flame-1-rank-0.folded.txt%2Fflame-1-rank-0.folded.txt"
    assert f'<a href="{flame}">flame-1-rank-0.folded.txt</a>' in listed
    for folder in ("plots", "twice"):
        assert f'<a href="?tab=artifacts&amp;folder={folder}">{folder}/</a>' in listed
    drawn = client.get(f"/runs/{run.id}/{flame.replace('&amp;', '&')}").content.decode()
    assert f'<a href="{flame}" aria-current="true">' in drawn
    assert ">plots/</a>" in drawn  # the other files stay beside it


def test_selected_runs_are_tagged_archived_and_deleted_together(
    run: Run, cast: Cast, browser: Browse, alice: Actor, experiment: Experiment
) -> None:
    other = services.create_run(alice, experiment, name="fast")
    client, ids = browser(cast.owner), [run.id, other.id]
    client.post("/runs/change/", {"runs": ids, "verb": "tag", "tag": "stage = prod"})
    assert [queries.find_run(alice, run_id).tags["stage"] for run_id in ids] == ["prod", "prod"]
    client.post("/runs/change/", {"runs": ids, "verb": "archive"})
    answer = client.post("/runs/change/", {"runs": ids, "verb": "delete", "back": "view=deleted"})
    assert answer["Location"] == f"/experiments/{experiment.pk}/?view=deleted"
    assert Run.objects.filter(deleted_ms=None).count() == 0
    assert client.post("/runs/change/", {"verb": "delete"}).status_code == 400
    assert client.post("/runs/change/", {"runs": ids, "verb": "burn"}).status_code == 400


def test_a_member_deletes_no_selection_with_a_run_of_another(
    run: Run, cast: Cast, browser: Browse, actor: Who
) -> None:
    bob = actor(cast.member)
    own = services.create_run(bob, run.experiment, name="own")
    answer = browser(cast.member).post("/runs/change/", {"runs": [own.id, run.id], "verb": "delete"})
    assert answer.status_code == 403
    assert Run.objects.filter(deleted_ms=None).count() == 2


def test_a_run_whose_job_has_not_ended_is_not_deleted(
    cast: Cast, browser: Browse, alice: Actor, quota: Any, vision: Any
) -> None:
    quota(vision)
    job, _ = jobs.submit(alice, job_mapping())
    answer = browser(cast.owner).post(f"/runs/{job.id}/delete/", follow=True)
    assert "has not ended; cancel it" in answer.content.decode()
