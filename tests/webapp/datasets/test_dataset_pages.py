"""What datasets there are, what is in them, and which jobs used them."""

from collections.abc import Callable

import pytest
from django.test import Client

from tests.webapp.conftest import Cast
from tests.webapp.world import World, build, job_mapping
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
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
    assert "newest is v1: 1 file, 7" in page
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
    with django_assert_max_num_queries(13):  # type: ignore[attr-defined]
        client.get("/datasets/")
    with django_assert_max_num_queries(13):  # type: ignore[attr-defined]
        client.get("/datasets/vision/stdlib/")
