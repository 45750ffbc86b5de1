"""An endpoint samples what it is asked and answers, and says which features are distributed otherwise than at first."""

import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.conftest import Cast
from tests.webapp.world import World, build, endpoint_mapping
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.alerts import readings
from webapp.base.identity import now_ms
from webapp.serving import drift, queries, services
from webapp.serving.models import AnswerSample, Endpoint
from webapp.serving.values import SampledAnswer

Api = Callable[[User], APIClient]
Browser = Callable[[User], Client]


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)


@pytest.fixture
def endpoint(cast: Cast, world: World) -> Endpoint:
    fields = endpoint_mapping(sample_percent=50, redact=["name"])
    return services.create(actor_of(cast.owner), fields)


def asked(row: Endpoint, count: int, mean: float, version: str = "") -> None:
    """So many requests, of which routers tell."""
    rng = random.Random(count)
    answers = []
    for _ in range(count):
        request = {
            "inputs": [{"age": rng.gauss(mean, 5), "name": "Ada", "city": rng.choice(["Bern", "Basel"])}]
        }
        answer = {"outputs": [rng.random()]}
        answers.append(
            SampledAnswer(
                row.id, version or row.stable_id, now_ms(), json.dumps(request).encode(),
                json.dumps(answer).encode(), ("name",),
            )
        )  # fmt: skip
    services.keep_answers(answers)


def looked(row: Endpoint, later_ms: int = 0) -> dict[str, Any]:
    drift.look(now_ms() + later_ms, transaction.atomic)
    row.refresh_from_db()
    return row.drift


def moved(found: dict[str, Any]) -> set[str]:
    return {one["feature"] for one in found["findings"] if one["moved"]}


def test_callers_who_change_are_found_and_an_alert_has_what_drifted(
    cast: Cast, endpoint: Endpoint, api: Api, browser: Browser
) -> None:
    address = f"/api/v1/endpoints/vision/{endpoint.name}/drift"
    assert api(cast.viewer).get(address).json() == {
        "sample_percent": 50, "at_ms": None, "reference": 0, "window": 0, "findings": [],
    }  # fmt: skip
    asked(endpoint, drift.REFERENCE, 40)
    assert looked(endpoint)["findings"] == []
    page = browser(cast.viewer).get(f"/serving/vision/{endpoint.name}/").content.decode()
    assert "500 of the first 500 samples" in page
    asked(endpoint, 300, 40)
    assert looked(endpoint)["findings"] == [], "once a minute"
    found = looked(endpoint, 60_000)
    assert {one["feature"] for one in found["findings"]} == {"input.age", "input.city", "output"}
    assert moved(found) == set()
    [reading] = readings.take(now_ms(), ["endpoint.drift"])["endpoint.drift"] or []
    assert reading.value == 0
    asked(endpoint, drift.WINDOW, 48)
    assert moved(looked(endpoint, 120_000)) == {"input.age"}
    [reading] = readings.take(now_ms(), ["endpoint.drift"])["endpoint.drift"] or []
    assert (reading.value, reading.subject, reading.name, reading.team, reading.detail) == (
        1, endpoint.id, endpoint.name, "vision", "input.age",
    )  # fmt: skip
    page = browser(cast.viewer).get(f"/serving/vision/{endpoint.name}/").content.decode()
    assert ">drifted</span>" in page
    assert api(cast.viewer).get(address).json()["findings"][0]["feature"] == "input.age"


def test_what_is_kept_is_bounded_and_has_no_redacted_field(
    cast: Cast, world: World, endpoint: Endpoint
) -> None:
    asked(endpoint, drift.REFERENCE + 2 * drift.WINDOW, 40)
    assert not AnswerSample.objects.filter(features__has_key="input.name").exists()
    first = AnswerSample.objects.order_by("id")[0].pk
    looked(endpoint)
    assert AnswerSample.objects.count() == drift.REFERENCE + drift.WINDOW
    assert AnswerSample.objects.order_by("id")[0].pk == first, "the reference stays"
    AnswerSample.objects.all().delete()
    asked(endpoint, 10, 40)
    other = services.create(actor_of(cast.owner), endpoint_mapping(name="silent"))
    assert looked(other) == {}, "nothing is sampled by default"


def test_routers_are_told_how_much_to_sample(cast: Cast, endpoint: Endpoint) -> None:
    [route] = [route for route in queries.routes() if route.name == endpoint.name]
    assert (route.sample_percent, route.redact) == (50, ("name",))
    [other] = [route for route in queries.routes() if route.name == "watched"]
    assert (other.sample_percent, other.redact) == (0, ())


def test_a_slice_that_moves_alone_is_named_on_the_page_and_in_the_alert(
    cast: Cast, world: World, api: Api, browser: Browser
) -> None:
    """Where the others move the other way, all requests together look as before."""
    row = services.create(actor_of(cast.owner), endpoint_mapping(sample_percent=50, slices=["city"]))
    asked(row, drift.REFERENCE, 40)
    rng = random.Random(5)
    answers = []
    for number in range(drift.WINDOW):
        city, mean = ("Bern", 47) if number % 2 else ("Basel", 33)
        request = {"inputs": [{"age": rng.gauss(mean, 5), "city": city}]}
        body = json.dumps(request).encode()
        answers.append(SampledAnswer(row.id, row.stable_id, now_ms(), body, b'{"outputs": [0.5]}'))
    services.keep_answers(answers)
    looked(row)
    [reading] = [
        one
        for one in readings.take(now_ms(), ["endpoint.drift"])["endpoint.drift"] or []
        if one.subject == row.id
    ]
    moved_alone = queries.moved([one for one in row.drift["findings"] if one["slice"]])
    assert {"input.age where input.city = Bern", "input.age where input.city = Basel"} <= set(moved_alone)
    assert reading.value >= 1
    page = browser(cast.viewer).get(f"/serving/vision/{row.name}/").content.decode()
    assert "where input.city = Bern" in page
    findings = api(cast.viewer).get(f"/api/v1/endpoints/vision/{row.name}/drift").json()["findings"]
    assert {one["slice"] for one in findings} >= {"", "input.city = Bern", "input.city = Basel"}


def test_a_feature_that_moved_everywhere_is_named_once() -> None:
    findings = [
        {"feature": "age", "slice": "city = Bern", "moved": True},
        {"feature": "age", "slice": "", "moved": True},
        {"feature": "size", "slice": "city = Bern", "moved": True},
        {"feature": "city", "slice": "", "moved": False},
    ]
    assert queries.moved(findings) == ("age", "size where city = Bern")
