"""Sampled requests become a dataset that grows, with labels, retention and the consent of callers."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from tests.webapp.world import endpoint_mapping
from trainmaster.store import open_store
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.artifacts.models import Manifest
from webapp.base.identity import now_ms
from webapp.datasets.models import DatasetSnapshot
from webapp.registry.models import ModelVersion
from webapp.serving import collecting, queries, services
from webapp.serving.models import CollectedRequest, Endpoint
from webapp.serving.values import SampledAnswer
from webapp.storage import retention


@pytest.fixture
def endpoint(cast: Cast, versions: list[ModelVersion]) -> Endpoint:
    fields = {"sample_percent": 100, "collect_for": ["training", "evaluation"], "redact": ["age"]}
    return services.create(actor_of(cast.owner), endpoint_mapping(version=1, **fields))


def asked(row: Endpoint, *keys: str, at_ms: int | None = None, collected: bool = True) -> None:
    services.keep_answers([
        SampledAnswer(
            row.id, row.stable_id, at_ms or now_ms(), json.dumps({"inputs": [{"x": 1, "age": 7}]}).encode(),
            b'{"outputs": ["cat"]}', ("age",), key, collected,
        )
        for key in keys
    ])  # fmt: skip


def lines(snapshot: DatasetSnapshot) -> list[dict[str, Any]]:
    manifest = Manifest.objects.get(pk=snapshot.manifest_id)
    store = open_store(manifest.source_url)
    texts = [store.read_range(file["sha256"], 0, file["size"]) for file in manifest.document["files"]]
    return [json.loads(line) for text in texts for line in text.splitlines()]


def versions_of(row: Endpoint) -> list[DatasetSnapshot]:
    return list(DatasetSnapshot.objects.filter(name=queries.collected_name(row)).order_by("version"))


def test_what_callers_agree_to_becomes_a_version_with_its_labels(
    cast: Cast, endpoint: Endpoint, api: Callable[[User], APIClient], browser: Callable[[User], Client]
) -> None:
    asked(endpoint, "r-1", "r-2")
    asked(endpoint, "r-3", collected=False)
    services.label(actor_of(cast.member), "vision", endpoint.name, {"r-2": "dog"})
    address = f"/api/v1/endpoints/vision/{endpoint.name}/collection"
    kept = api(cast.viewer).get(address).json()
    assert (kept["dataset"], kept["requests"], kept["fresh"], kept["version"]) == (
        "writer-requests",
        2,
        2,
        None,
    )
    made = api(cast.owner).post(address).json()
    assert (made["version"], made["fresh"]) == (1, 0)
    [snapshot] = versions_of(endpoint)
    assert (snapshot.purpose, snapshot.created_by) == ("training,evaluation", cast.owner)
    first, second = lines(snapshot)
    assert (first["request"], first["input"], first["output"], first["version"]) == (
        "r-1",
        {"x": 1},
        "cat",
        1,
    )
    assert ("label" in first, second["label"]) == (False, "dog")
    page = browser(cast.owner).get(f"/serving/vision/{endpoint.name}/").content.decode()
    assert '<a href="/datasets/vision/writer-requests/">writer-requests</a>' in page
    assert browser(cast.owner).post(f"/serving/vision/{endpoint.name}/collect/").status_code == 302
    assert len(versions_of(endpoint)) == 1, "the same requests and labels are the same version"


def test_a_version_is_made_once_a_day_of_what_came(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(endpoint, "r-1")
    collecting.publish_due()
    assert versions_of(endpoint) == []
    Endpoint.objects.filter(id=endpoint.id).update(created_ms=now_ms() - DAY_MS)
    collecting.publish_due()
    assert [one.version for one in versions_of(endpoint)] == [1]
    collecting.publish_due()
    asked(endpoint, "r-2")
    collecting.publish_due()
    assert [one.version for one in versions_of(endpoint)] == [1]
    now = now_ms()
    monkeypatch.setattr(collecting, "now_ms", lambda: now + DAY_MS)
    collecting.publish_due()
    assert [one.version for one in versions_of(endpoint)] == [1, 2]
    assert [line["request"] for line in lines(versions_of(endpoint)[1])] == ["r-1", "r-2"]


def test_a_refusal_is_kept_for_the_page_and_tried_again_a_day_later(
    cast: Cast, endpoint: Endpoint, browser: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: object) -> None:
        raise TrainmasterError("too_large", what="datasets of vision", size=2, limit=1)

    asked(endpoint, "r-1")
    Endpoint.objects.filter(id=endpoint.id).update(created_ms=now_ms() - DAY_MS)
    monkeypatch.setattr(collecting.artifacts, "start_upload", full)
    collecting.publish_due()
    page = browser(cast.viewer).get(f"/serving/vision/{endpoint.name}/").content.decode()
    assert "Datasets of vision has 2; the limit is 1" in page
    monkeypatch.undo()
    collecting.publish_due()
    assert versions_of(endpoint) == []
    Endpoint.objects.filter(id=endpoint.id).update(collection={"at_ms": 1, "error": "full"})
    collecting.publish_due()
    endpoint.refresh_from_db()
    assert (endpoint.collection["version"], endpoint.collection["error"]) == (1, "")


def test_requests_go_when_they_are_too_old_or_too_many(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(endpoint, "old", at_ms=now_ms() - 31 * DAY_MS)
    asked(endpoint, *[f"r-{number}" for number in range(5)])
    monkeypatch.setattr(collecting, "MOST_REQUESTS", 3)
    collecting.publish_due()
    assert list(CollectedRequest.objects.order_by("pk").values_list("request", flat=True)) == [
        "r-2",
        "r-3",
        "r-4",
    ]
    size = CollectedRequest.objects.get(request="r-4").bytes
    monkeypatch.setattr(collecting, "MOST_BYTES", 2 * size)
    collecting.publish_due()
    assert CollectedRequest.objects.count() == 2


def test_versions_that_are_older_than_requests_may_be_are_forgotten_where_nothing_uses_them(
    endpoint: Endpoint,
) -> None:
    asked(endpoint, "r-1")
    collecting.publish(endpoint)
    asked(endpoint, "r-2")
    collecting.publish(endpoint)
    retention.retain()
    assert [one.version for one in versions_of(endpoint)] == [1, 2]
    DatasetSnapshot.objects.update(created_ms=now_ms() - 31 * DAY_MS)
    retention.retain()
    assert [one.version for one in versions_of(endpoint)] == [2], "the newest stays"


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"collect_for": ["training"]}, "needs sample_percent"),
        ({"collect_for": ["training,evaluation"], "sample_percent": 1}, "without commas"),
        ({"collect_days": 0}, "collect_days"),
    ],
)
def test_what_cannot_be_collected_is_refused(
    cast: Cast, versions: list[ModelVersion], fields: dict[str, Any], word: str
) -> None:
    with pytest.raises(TrainmasterError, match=word):
        services.create(actor_of(cast.owner), endpoint_mapping(**fields))


def test_routers_are_told_for_what_callers_are_asked(endpoint: Endpoint) -> None:
    [route] = queries.routes()
    assert (route.consent.given("training, evaluation"), route.consent.given(None)) == (True, False)
