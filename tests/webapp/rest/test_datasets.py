"""Snapshots of datasets are listed for the members of their team."""

import io
from collections.abc import Callable

from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from webapp.accounts.queries import actor_of
from webapp.artifacts import services

Api = Callable[..., APIClient]
DATASETS = "/api/v1/datasets"


def manifest(cast: Cast, content: bytes) -> str:
    alice = actor_of(cast.owner)
    upload = services.start_upload(alice, "vision", "dataset", "tiny")
    services.receive_file(alice, upload.id, "a.bin", io.BytesIO(content))
    return services.complete_upload(alice, upload.id).id


def test_snapshots_are_listed_newest_first_with_their_size(cast: Cast, api: Api) -> None:
    alice = api(cast.owner)
    for name, content in (("tiny", b"1"), ("tiny", b"22"), ("other", b"333")):
        body = {"team": "vision", "manifest": manifest(cast, content), "purpose": "train,eval"}
        assert alice.post(f"{DATASETS}/{name}/snapshots", body, format="json").status_code == 201
    rows = api(cast.viewer).get(DATASETS).json()["results"]
    assert [(row["name"], row["version"], row["bytes"]) for row in rows] == [
        ("other", 1, 3), ("tiny", 2, 2), ("tiny", 1, 1),
    ]  # fmt: skip
    assert (rows[0]["team"], rows[0]["created_by"], rows[0]["files"]) == ("vision", "alice", 1)
    assert len(api(cast.viewer).get(DATASETS, {"name": "tiny"}).json()["results"]) == 2
    assert api(cast.viewer).get(DATASETS, {"team": "nlp"}).json()["results"] == []
    assert api(cast.outsider, "nlp").get(DATASETS).json()["results"] == []
