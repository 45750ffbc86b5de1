"""What datasets there are, what is in them, and which jobs used them."""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from tests.webapp.conftest import Cast
from tests.webapp.datasets.registering import run
from tests.webapp.world import World, build, job_mapping
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.datasets import services
from webapp.datasets.models import DatasetSnapshot
from webapp.jobs import services as jobs

Browser = Callable[[User], Client]


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)


@pytest.fixture
def trained(cast: Cast, world: World) -> str:
    """The id of a job that used the newest version."""
    snapshot = DatasetSnapshot.objects.get(name="stdlib")
    job, _ = jobs.submit(
        actor_of(cast.owner), job_mapping(name="on-stdlib", dataset=snapshot.id, purpose="eval")
    )
    return str(job.id)


def test_a_dataset_is_listed_with_its_newest_version_and_its_jobs(
    cast: Cast, world: World, trained: str, browser: Browser
) -> None:
    services.add_snapshot(actor_of(cast.owner), "vision", "stdlib", world.dataset_manifest, "train")
    page = browser(cast.viewer).get("/datasets/").content.decode()
    assert '<a href="/datasets/vision/stdlib/">stdlib</a>' in page
    assert "vision · 2 versions" in page
    assert "<td>v2</td>" in page
    assert '<td class="n">1</td>' in page
    assert "trainmaster dataset push" not in page  # a viewer may not


def test_a_dataset_shows_its_versions_files_jobs_and_how_to_push(
    cast: Cast, trained: str, browser: Browser
) -> None:
    page = browser(cast.member).get("/datasets/vision/stdlib/").content.decode()
    assert "v1: 1 file, 7" in page
    assert f'<a href="/jobs/{trained}/">on-stdlib</a>' in page
    assert "dataset.bin" in page
    assert "trainmaster dataset push ./folder --name stdlib --team vision --purpose train" in page


def test_the_jobs_of_other_teams_are_not_named(cast: Cast, world: World, browser: Browser) -> None:
    page = browser(cast.outsider).get("/datasets/").content.decode()
    assert "No datasets yet" in page
    assert "stdlib" not in page
    assert "--team nlp" in page


def test_twenty_datasets_take_no_more_queries_than_one(
    cast: Cast, world: World, browser: Browser, django_assert_max_num_queries: Callable[..., object]
) -> None:
    for number in range(20):
        services.add_snapshot(
            actor_of(cast.owner), "vision", f"set-{number}", world.dataset_manifest, "train"
        )
    client = browser(cast.owner)
    with django_assert_max_num_queries(14):  # type: ignore[attr-defined]
        client.get("/datasets/")
    with django_assert_max_num_queries(21):  # type: ignore[attr-defined]
        client.get("/datasets/vision/stdlib/")


def test_the_page_shows_changes_a_preview_and_the_way_to_request_access(
    cast: Cast, world: World, browser: Browser
) -> None:
    alice = actor_of(cast.owner)
    upload = artifacts.start_upload(alice, "vision", "dataset", "stdlib")
    artifacts.receive_file(alice, upload.id, "table.csv", io.BytesIO(b"id,name\n1,a\n2,\n"))
    later = artifacts.complete_upload(alice, upload.id)
    services.add_snapshot(alice, "vision", "stdlib", later.id, "eval")
    page = browser(cast.lead).get("/datasets/vision/stdlib/?path=table.csv").content.decode()
    assert "Changes from v1 to v2" in page
    assert "1 added, 1 removed" in page
    assert "The whole file: 2 rows" in page
    assert "report by vision" in page  # the request of this world
    assert "Approve report by vision" in page
    assert "Request access" in page
    assert "Approve report" not in browser(cast.viewer).get("/datasets/vision/stdlib/").content.decode()


def test_other_teams_see_the_card_of_a_listed_dataset_alone(
    cast: Cast, world: World, browser: Browser
) -> None:
    outsider = browser(cast.outsider)
    assert outsider.get("/datasets/vision/stdlib/").status_code == 404
    described = {"description": "Sources of Python", "tags": "code, text", "decides": "1", "listed": "on"}
    assert browser(cast.owner).post("/datasets/vision/stdlib/describe/", described).status_code == 302
    assert "Datasets of other teams" in outsider.get("/datasets/").content.decode()
    page = outsider.get("/datasets/vision/stdlib/").content.decode()
    assert "Sources of Python" in page
    assert "dataset.bin" not in page
    assert "stdlib" in browser(cast.viewer).get("/datasets/?search=TEXT").content.decode()
    assert "No dataset has" in browser(cast.viewer).get("/datasets/?search=audio").content.decode()


def test_a_folder_is_registered_with_the_form_and_a_refusal_keeps_what_was_typed(
    cast: Cast, world: World, browser: Browser, tmp_path: Path, settings: Any
) -> None:
    (tmp_path / "a.bin").write_bytes(b"a")
    form = {"team": "vision", "name": "shared", "source_url": tmp_path.as_uri(), "purpose": "train"}
    refused = browser(cast.owner).post("/datasets/register/", form)
    assert refused.status_code == 422
    assert "TRAINMASTER_SOURCE_PREFIXES" in refused.content.decode()
    assert tmp_path.as_uri() in refused.content.decode()
    settings.SOURCE_PREFIXES = [tmp_path.as_uri()]
    assert browser(cast.owner).post("/datasets/register/", form).status_code == 302
    page = browser(cast.owner).get("/datasets/vision/shared/").content.decode()
    assert "listing" in page
    run(DatasetSnapshot.objects.get(name="shared"))
    assert "Verify source" in browser(cast.owner).get("/datasets/vision/shared/").content.decode()
