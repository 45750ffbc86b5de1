"""An endpoint samples what it is asked and answers, and says which features are distributed otherwise than at first."""

import io
import json
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from rest_framework.test import APIClient

from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS
from tests.webapp.conftest import Cast
from tests.webapp.world import World, build, endpoint_mapping
from trainmaster import save_training_reference
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.alerts import readings
from webapp.artifacts import services as artifacts
from webapp.base.identity import now_ms
from webapp.registry import services as registry
from webapp.serving import drift, queries, services, training
from webapp.serving.models import AnswerSample, Endpoint, TrainingReference
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


def asked(row: Endpoint, count: int, mean: float, version: str = "", ago_ms: int = 0) -> None:
    """So many requests, of which routers tell; a minute lies between two of those that are `ago_ms` old."""
    rng = random.Random(count)
    answers = []
    for number in range(count):
        request = {
            "inputs": [{"age": rng.gauss(mean, 5), "name": "Ada", "city": rng.choice(["Bern", "Basel"])}]
        }
        answer = {"outputs": [rng.random()]}
        answers.append(
            SampledAnswer(
                row.id, version or row.stable_id, now_ms() - ago_ms + bool(ago_ms) * number * MINUTE_MS,
                json.dumps(request).encode(),
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
        "sample_percent": 50, "at_ms": None, "reference": 0, "references": {}, "window": 0, "findings": [],
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
    for_the_week = AnswerSample.objects.count() - drift.REFERENCE - drift.WINDOW
    assert 1 <= for_the_week <= 2, "one of each ten minutes, which may end just now"
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


def against(found: dict[str, Any]) -> dict[str, set[str]]:
    """What moved, by the reference."""
    result: dict[str, set[str]] = {one["against"]: set() for one in found["findings"]}
    for one in found["findings"]:
        if one["moved"]:
            result[one["against"]].add(one["feature"])
    return result


def trained_on(row: Endpoint, mean: float) -> None:
    rng = random.Random(3)
    TrainingReference.objects.create(
        model_version_id=row.stable_id, at_ms=now_ms(),
        rows=[{"input.age": rng.gauss(mean, 5), "input.city": rng.choice(["Bern", "Basel"])} for _ in range(500)],
    )  # fmt: skip


def test_the_training_data_are_a_reference_from_the_first_requests_on(
    cast: Cast, endpoint: Endpoint, browser: Browser
) -> None:
    trained_on(endpoint, 40)
    asked(endpoint, 120, 48)
    found = looked(endpoint)
    assert against(found) == {"training": {"input.age"}}
    assert found["references"] == {"training": 500, "first": 120, "last week": 0}
    page = browser(cast.viewer).get(f"/serving/vision/{endpoint.name}/").content.decode()
    assert "<td>training</td>" in page
    assert "last week 0" in page


def test_what_moved_slowly_differs_from_the_start_and_not_from_last_week(endpoint: Endpoint) -> None:
    """Callers were 40 at first and have been 48 for days: today is as last week, and not as at first."""
    asked(endpoint, drift.REFERENCE, 40, ago_ms=7 * DAY_MS)
    asked(endpoint, 2_400, 48, ago_ms=3 * DAY_MS)
    looked(endpoint)
    asked(endpoint, drift.WINDOW, 48)
    looked(endpoint, MINUTE_MS)
    found = looked(endpoint, 2 * MINUTE_MS)
    assert found["references"]["last week"] >= drift.LEAST_REFERENCE
    assert against(found) == {"first": {"input.age"}, "last week": set()}


def test_of_the_last_week_one_sample_of_ten_minutes_is_kept(endpoint: Endpoint) -> None:
    asked(endpoint, drift.REFERENCE, 40, ago_ms=9 * DAY_MS)
    asked(endpoint, 600, 40, ago_ms=2 * DAY_MS)
    asked(endpoint, drift.WINDOW, 40)
    looked(endpoint)
    week = AnswerSample.objects.filter(at_ms__lt=now_ms() - DAY_MS).count() - drift.REFERENCE
    assert 60 <= week <= 61, "ten hours"
    looked(endpoint, 8 * DAY_MS + HOUR_MS)
    old = AnswerSample.objects.filter(at_ms__lt=now_ms() - DAY_MS).count() - drift.REFERENCE
    assert old == 0


def uploaded(cast: Cast, document: bytes) -> str:
    owner = actor_of(cast.owner)
    upload = artifacts.start_upload(owner, "vision", "model", "exported")
    artifacts.receive_file(owner, upload.id, "reference.jsonl", io.BytesIO(document))
    manifest = artifacts.complete_upload(owner, upload.id).id
    return registry.register(owner, "vision", "aged", manifest=manifest).id


def test_the_sample_that_comes_with_a_version_is_read(
    cast: Cast, tmp_path: Any, monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any
) -> None:
    rows = [{"age": number, "city": "Bern"} for number in range(900)]
    path = save_training_reference(tmp_path, rows, [[number] for number in range(900)])
    sent: list[tuple[str, Any]] = []
    monkeypatch.setattr(
        "celery.current_app.send_task", lambda name, arguments: sent.append((name, arguments))
    )
    with django_capture_on_commit_callbacks(execute=True):
        version = uploaded(cast, path.read_bytes())
    assert ("serving.read_training_reference", [version]) in sent
    training.read(version)
    kept = training.rows_of(version)
    assert len(kept) == 500
    assert all(row["input.age"] == row["output[0]"] for row in kept)


def test_a_sample_that_is_no_request_says_which_line(cast: Cast) -> None:
    version = uploaded(cast, b'{"inputs": [[1, 2]]}\nnonsense\n')
    training.read(version)
    assert training.rows_of(version) == []
    assert "line 2 is no" in training.problem_of(version)


def test_rows_and_outputs_of_a_sample_pair(tmp_path: Any) -> None:
    with pytest.raises(TrainmasterError, match="2 inputs and 1 outputs"):
        save_training_reference(tmp_path, [[1], [2]], [[1]])
