"""The built-in rules about datasets and endpoints, over what the platform really measures."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.core.cache import cache
from django.db import transaction

from platform_core.serving.latency import BUCKETS, bucket_of
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS
from tests.webapp.alerts.proving import Clock, proves
from webapp.accounts.models import Team, User
from webapp.accounts.queries import actor_of
from webapp.alerts import readings
from webapp.alerts.models import Alert
from webapp.artifacts.models import Manifest
from webapp.datasets.models import Dataset, DatasetSnapshot
from webapp.jobs.models import Job
from webapp.nodes.models import Node
from webapp.registry import services as registry
from webapp.serving import drift
from webapp.serving import services as serving
from webapp.serving.models import AnswerSample, Endpoint, Replica, TrafficSample


def version_at(team: Team, owner: User, at: int) -> object:
    number = DatasetSnapshot.objects.count() + 1
    return DatasetSnapshot.objects.create(
        id=f"ds-{number}", team=team, name="clicks", version=number, created_ms=at, created_by=owner
    )


def test_a_dataset_that_is_renewed_no_more(vision: Team, owner: User, clock: Clock) -> None:
    for days in (40, 38, 36):
        version_at(vision, owner, clock.now - days * DAY_MS)
    [reading] = readings.take(clock.now, ["team.dataset_age"])["team.dataset_age"] or []
    assert (reading.value, reading.detail) == (1800, "the newest version of clicks is 36 days old")
    proves("dataset_stale", clock, lambda at: None, lambda at: version_at(vision, owner, at))


def test_a_dataset_that_is_older_than_was_promised(vision: Team, owner: User, clock: Clock) -> None:
    Dataset.objects.create(team=vision, name="clicks", fresh_minutes=60, follow_error="it is away")
    version_at(vision, owner, clock.now - 90 * MINUTE_MS)
    [reading] = readings.take(clock.now, ["team.dataset_freshness"])["team.dataset_freshness"] or []
    said = (
        "the newest version of clicks is 90 minutes old, and 60 minutes were promised; the last look failed: "
    )
    assert (reading.value, reading.detail) == (150, said + "it is away")
    proves("dataset_late", clock, lambda at: None, lambda at: version_at(vision, owner, at))


def test_drift_of_an_endpoint(vision: Team, owner: User, clock: Clock) -> None:
    manifest = Manifest.objects.create(
        id="man-2", kind="model", source_url="", total_bytes=1, files=1, document={}, created_ms=1
    )
    manifest.teams.add(vision)
    actor = actor_of(owner)
    registry.register(actor, "vision", "ages", manifest=manifest.id)
    fields = {"name": "ages", "team": "vision", "model": "ages", "gpu_type": "cpu", "sample_percent": 10}
    row = serving.create(actor, fields)

    def asks(age: float) -> Callable[[int], object]:
        def ask(at: int) -> None:
            one = {"endpoint": row, "model_version_id": row.stable_id, "at_ms": at}
            samples = [AnswerSample(**one, features={"age": age + n % 7}) for n in range(drift.WINDOW)]
            AnswerSample.objects.bulk_create(samples)
            drift.look(at, transaction.atomic)

        return ask

    asks(40)(clock.now)
    proves("endpoint_drift", clock, asks(60), asks(40))


@pytest.fixture
def endpoint(vision: Team, owner: User) -> Endpoint:
    manifest = Manifest.objects.create(
        id="man-2", kind="model", source_url="", total_bytes=1, files=1, document={}, created_ms=1
    )
    manifest.teams.add(vision)
    registry.register(actor_of(owner), "vision", "ages", manifest=manifest.id)
    fields = {"name": "ages", "team": "vision", "model": "ages", "gpu_type": "cpu", "target_latency_ms": 100}
    row = serving.create(actor_of(owner), fields)
    Endpoint.objects.filter(id=row.id).update(was_ready=True)
    return row


def replicas_ready(row: Endpoint, count: int, submit: Callable[..., Job]) -> None:
    Replica.objects.filter(endpoint=row).delete()
    for number in range(count):
        job = submit()
        Replica.objects.create(
            id=f"rep-{job.id}-{number}", endpoint=row, job=job, model_version_id=row.stable_id, state="ready",
            since_ms=1,
        )  # fmt: skip


@pytest.mark.parametrize(("code", "left"), [("endpoint_down", 0), ("endpoint_short", 1)])
def test_replicas_of_an_endpoint(
    cluster: list[Node], endpoint: Endpoint, submit: Callable[..., Job], clock: Clock, code: str, left: int
) -> None:
    Endpoint.objects.filter(id=endpoint.id).update(wanted=2)
    proves(
        code, clock, lambda at: replicas_ready(endpoint, left, submit), lambda at: replicas_ready(endpoint, 2, submit)
    )  # fmt: skip
    assert "2 replicas" in Alert.objects.get(rule=code).sentence


@pytest.mark.parametrize(
    ("code", "errors", "latency_ms"), [("endpoint_errors", 10, 50), ("endpoint_slow", 0, 400)]
)
def test_requests_to_an_endpoint(
    endpoint: Endpoint, clock: Clock, code: str, errors: int, latency_ms: int
) -> None:
    def answers(errors: int, latency_ms: int) -> Callable[[int], object]:
        latencies = [0] * BUCKETS
        latencies[bucket_of(latency_ms)] = 100

        def see(at: int) -> None:
            TrafficSample.objects.all().delete()
            TrafficSample.objects.create(
                endpoint=endpoint, model_version_id=endpoint.stable_id, router="r", at_ms=at - 1, requests=100,
                errors=errors, in_flight_ms=1, latencies=latencies,
            )  # fmt: skip

        return see

    proves(code, clock, answers(errors, latency_ms), answers(0, 50))


def test_a_router_that_is_down(endpoint: Endpoint, clock: Clock) -> None:
    begun = clock.now
    proves("router_down", clock, lambda at: routed(begun - HOUR_MS), routed)


def routed(at: int) -> None:
    cache.set("pulse:router", at, None)
