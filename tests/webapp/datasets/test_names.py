"""People read names: "python v2" and "bytelm, step 50", each list of ids for one query."""

from collections.abc import Callable

import pytest

from tests.webapp.conftest import Cast
from tests.webapp.world import World, build
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.artifacts.models import Upload
from webapp.checkpoints import queries as checkpoints
from webapp.datasets import queries as datasets
from webapp.datasets import services

Queries = Callable[[int], object]


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)


def test_snapshots_are_named_in_one_query(
    cast: Cast, world: World, django_assert_num_queries: Queries
) -> None:
    actor = actor_of(cast.owner)
    first = services.add_snapshot(actor, "vision", "python", world.dataset_manifest, "train")
    second = services.add_snapshot(actor, "vision", "python", world.dataset_manifest, "eval")
    with django_assert_num_queries(1):  # type: ignore[attr-defined]
        names = datasets.names([first.id, second.id, "ds-gone"])
    assert names == {first.id: "python v1", second.id: "python v2"}


def test_checkpoints_are_named_in_one_query(world: World, django_assert_num_queries: Queries) -> None:
    with django_assert_num_queries(1):  # type: ignore[attr-defined]
        assert checkpoints.names([world.checkpoint, "ckpt-gone"]) == {world.checkpoint: "bytelm, step 50"}


def test_uploads_are_named_as_the_teams_that_may_see_them_named_them(
    world: World, django_assert_num_queries: Queries
) -> None:
    Upload.objects.filter(manifest=world.model_manifest).update(name="weights of bytelm")
    with django_assert_num_queries(1):  # type: ignore[attr-defined]
        named = artifacts.names([world.model_manifest, "man-gone"], ["vision"])
    assert named == {world.model_manifest: "weights of bytelm"}
    assert artifacts.names([world.model_manifest], ["nlp"]) == {}
    assert artifacts.names([world.model_manifest], None) == named
