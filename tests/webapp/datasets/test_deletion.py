"""A version of a dataset is deleted: nobody begins from it, its number stays, its files are left over."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import SPEC, cluster
from tests.webapp.world import _manifest
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts import queries as artifacts
from webapp.datasets import services
from webapp.datasets.models import DatasetSnapshot
from webapp.events.models import Event
from webapp.jobs.models import Job
from webapp.nodes.models import Node

__all__ = ["cluster"]
Api = Callable[..., APIClient]


@pytest.fixture
def snapshot(cast: Cast, cluster: list[Node]) -> DatasetSnapshot:
    alice = actor_of(cast.owner)
    return services.add_snapshot(alice, "vision", "faces", _manifest(alice, "dataset"), "train")


def submit(api: APIClient, snapshot: DatasetSnapshot) -> tuple[int, dict[str, str]]:
    body = {**SPEC, "num_gpus": 1, "dataset": snapshot.id, "purpose": "train"}
    answer = api.post("/api/v1/training-jobs", body, format="json")
    return answer.status_code, answer.json()


def test_one_that_no_job_reads_is_deleted_and_its_files_are_left_over(
    cast: Cast, api: Api, snapshot: DatasetSnapshot
) -> None:
    manifest = snapshot.manifest_id
    for _ in range(2):
        assert api(cast.owner).delete(f"/api/v1/dataset-snapshots/{snapshot.id}").status_code == 204
    assert DatasetSnapshot.objects.get(id=snapshot.id).state == "deleted"
    assert [each.id for each in artifacts.unreferenced(("dataset",), 2**60, 10)] == [manifest]
    assert Event.objects.filter(kind="SnapshotDeleted").count() == 1
    status, said = submit(api(cast.owner), snapshot)
    assert (status, "deleted" in str(said)) == (422, True)


def test_its_number_is_not_given_again(cast: Cast, api: Api, snapshot: DatasetSnapshot) -> None:
    alice = actor_of(cast.owner)
    api(cast.owner).delete(f"/api/v1/dataset-snapshots/{snapshot.id}")
    assert services.add_snapshot(alice, "vision", "faces", _manifest(alice, "dataset"), "train").version == 2


def test_one_that_a_job_reads_stays_until_the_job_has_ended(
    cast: Cast, api: Api, snapshot: DatasetSnapshot
) -> None:
    assert submit(api(cast.owner), snapshot)[0] == 201
    refused = api(cast.owner).delete(f"/api/v1/dataset-snapshots/{snapshot.id}")
    assert (refused.status_code, refused.json()["code"]) == (409, "dataset_in_use")
    assert "faces version 1 is read by" in refused.json()["detail"]
    Job.objects.update(state="succeeded", finished_ms=1)
    assert api(cast.owner).delete(f"/api/v1/dataset-snapshots/{snapshot.id}").status_code == 204


def test_a_version_without_files_is_not_compared_as_if_all_were_removed(
    cast: Cast, api: Api, browser: Callable[[User], Client], snapshot: DatasetSnapshot
) -> None:
    alice = actor_of(cast.owner)
    api(cast.owner).delete(f"/api/v1/dataset-snapshots/{snapshot.id}")
    second = services.add_snapshot(alice, "vision", "faces", _manifest(alice, "dataset"), "train")
    refused = api(cast.owner).get(f"/api/v1/dataset-snapshots/{snapshot.id}/difference/{second.id}")
    assert (refused.status_code, refused.json()["code"]) == (400, "request_invalid")
    assert "it is deleted and has no list of files" in refused.json()["detail"]
    assert browser(cast.owner).get("/datasets/vision/faces/").status_code == 200
