"""Labels that come later are joined to sampled requests; the page, REST and the policy of retraining read them."""

import json
from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.serving.quality import LEAST
from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from tests.webapp.world import World, build, endpoint_mapping
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.registry.models import Model
from webapp.retraining import coordination
from webapp.retraining import services as retraining
from webapp.retraining.models import Policy
from webapp.serving import answers, queries, services
from webapp.serving.models import Endpoint, Prediction
from webapp.serving.values import SampledAnswer

Api = Callable[[User], APIClient]
Browser = Callable[[User], Client]


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)


@pytest.fixture
def endpoint(cast: Cast, world: World) -> Endpoint:
    return services.create(actor_of(cast.owner), endpoint_mapping(sample_percent=100))


def answered(row: Endpoint, count: int, at_ms: int | None = None, answer: str = "cat") -> list[str]:
    """The ids of so many sampled requests."""
    keys = [f"r-{answer}-{number}" for number in range(count)]
    services.keep_answers([
        SampledAnswer(
            row.id, row.stable_id, at_ms or now_ms(), b'{"inputs": [1]}', json.dumps({"outputs": [answer]}).encode(),
            (), key,
        )
        for key in keys
    ])  # fmt: skip
    return keys


def test_labels_are_joined_by_request_and_shown_by_window(
    cast: Cast, endpoint: Endpoint, api: Api, browser: Browser
) -> None:
    address = f"/api/v1/endpoints/vision/{endpoint.name}"
    keys = answered(endpoint, 4)
    old = answered(endpoint, 1, now_ms() - 2 * DAY_MS, "dog")
    page = browser(cast.viewer).get(f"/serving/vision/{endpoint.name}/").content.decode()
    assert "by labels that came later" not in page
    labels = {keys[0]: "cat", keys[1]: "cat", keys[2]: "dog", keys[3]: 3, old[0]: "dog", "r-other": "cat"}
    sent = api(cast.member).post(f"{address}/labels", {"labels": labels}, format="json")
    assert sent.json() == {"joined": 4, "unknown": ["r-other"], "other_shape": [keys[3]]}
    rows = api(cast.viewer).get(f"{address}/quality").json()["results"]
    assert [(row["window"], row["answers"], row["labelled"]) for row in rows] == [
        ("24 h", 4, 3), ("7 days", 5, 4), ("30 days", 5, 4),
    ]  # fmt: skip
    assert rows[1]["accuracy"] == 0.75
    api(cast.member).post(f"{address}/labels", {"labels": {keys[2]: "cat"}}, format="json")
    assert api(cast.viewer).get(f"{address}/quality").json()["results"][0]["accuracy"] == 1.0, (
        "a later label counts"
    )
    page = browser(cast.viewer).get(f"/serving/vision/{endpoint.name}/").content.decode()
    assert "by labels that came later" in page
    assert "the last 24 h" in page


def test_what_is_no_object_and_too_many_labels_are_refused(cast: Cast, endpoint: Endpoint, api: Api) -> None:
    address = f"/api/v1/endpoints/vision/{endpoint.name}/labels"
    assert api(cast.member).post(address, {"labels": ["cat"]}, format="json").status_code == 400
    many = {str(number): 1 for number in range(answers.MOST_LABELS + 1)}
    with pytest.raises(TrainmasterError, match="at most 10,000"):
        services.label(actor_of(cast.member), "vision", endpoint.name, many)


def test_old_predictions_are_forgotten(
    cast: Cast, endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(endpoint, 3, now_ms() - answers.KEPT_MS - 1, "old")
    answered(endpoint, 5)
    monkeypatch.setattr(answers, "MOST_KEPT", 2)
    answers.forget_predictions(endpoint, now_ms())
    kept = Prediction.objects.filter(endpoint=endpoint).order_by("id").values_list("request", flat=True)
    assert list(kept) == ["r-cat-3", "r-cat-4"]


def test_a_request_that_is_told_twice_is_kept_once(endpoint: Endpoint) -> None:
    answered(endpoint, 2)
    answered(endpoint, 2)
    assert Prediction.objects.filter(endpoint=endpoint).count() == 2


def test_labels_that_say_it_is_worse_ask_for_a_retraining(cast: Cast, endpoint: Endpoint) -> None:
    keys = answered(endpoint, LEAST)
    model = Model.objects.get(pk=endpoint.stable.model_id)
    fields = {"endpoint": endpoint.name, "decay_metric": "accuracy", "decay_bound": 0.9, "for_minutes": 0}
    retraining.set_policy(actor_of(cast.lead), model, fields)
    services.label(actor_of(cast.member), "vision", endpoint.name, dict.fromkeys(keys[1:], "dog"))
    assert queries.online(endpoint, endpoint.stable_id).value("accuracy") is None, "too few labels"
    services.label(actor_of(cast.member), "vision", endpoint.name, {keys[0]: "cat"})
    assert queries.online(endpoint, endpoint.stable_id).value("accuracy") == 1 / LEAST
    assert coordination.coordinate()
    assert "no job of this platform made" in Policy.objects.get().held["reasons"][0], "it was uploaded"
