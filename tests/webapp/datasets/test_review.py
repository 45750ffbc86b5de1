"""What jobs could not read is listed over all of them; a person drops it for later jobs, or releases it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.loading.dropped import Dropped, from_text
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import SPEC, cluster, tick
from tests.webapp.world import _manifest
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.datasets import queries, services
from webapp.datasets.models import DatasetSnapshot, Unreadable
from webapp.events.models import Event
from webapp.jobs.models import Attempt
from webapp.nodes.models import Node
from webapp.rpc import spool
from webapp.rpc.wanted import wanted_states

__all__ = ["cluster"]
Api = Callable[..., APIClient]


@pytest.fixture
def snapshot(cast: Cast, cluster: list[Node]) -> DatasetSnapshot:
    alice = actor_of(cast.owner)
    return services.add_snapshot(alice, "vision", "faces", _manifest(alice, "dataset"), "train")


@pytest.fixture
def attempt(cast: Cast, api: Api, snapshot: DatasetSnapshot) -> Callable[[], Attempt]:
    def attempt() -> Attempt:
        body = {**SPEC, "num_gpus": 1, "dataset": snapshot.id, "purpose": "train"}
        job = api(cast.owner).post("/api/v1/training-jobs", body, format="json").json()["id"]
        tick()
        return Attempt.objects.select_related("job").get(job=job)

    return attempt


def say(attempt: Attempt, **facts: Any) -> None:
    """As the spool of a rank brings it."""
    event = {
        "kind": "set_aside",
        "at_ms": 5,
        "loader": "train",
        "samples": 10,
        "reason": "ReadError: cut off",
        **facts,
    }
    spool.ingest(attempt, "node-1", json.dumps(event).encode())


def environment_of(cluster: list[Node], attempt: Attempt) -> dict[str, str]:
    for state in wanted_states([node.id for node in cluster]):
        for order in state.attempts:
            if order.attempt_id == attempt.id and order.launch:
                return dict(order.launch.environment)
    raise AssertionError("it is not wanted anywhere")


def test_ranks_and_attempts_of_a_job_count_once_and_jobs_add_up(
    attempt: Callable[[], Attempt], snapshot: DatasetSnapshot
) -> None:
    first, second = attempt(), attempt()
    for one in (first, first, second):
        say(one, shard="b.tar")
        say(one, sample=7)
    shard, sample = sorted(queries.unreadable_of(snapshot.id), key=lambda row: row.sample)
    assert (shard.shard, shard.sample, shard.job_count) == ("b.tar", -1, 2)
    assert (sample.loader, sample.samples, sample.sample, sample.job_count) == ("train", 10, 7, 2)
    assert shard.jobs == [second.job_id, first.job_id]
    assert shard.reason == "ReadError: cut off"


@pytest.mark.parametrize(
    "facts",
    [{}, {"sample": "x"}, {"sample": 1, "samples": None}, {"sample": 1, "loader": None}, {"shard": 3}],
)
def test_a_line_that_names_nothing_is_skipped(attempt: Callable[[], Attempt], facts: dict[str, Any]) -> None:
    say(attempt(), **facts)
    assert not Unreadable.objects.exists()


def test_what_is_dropped_reaches_the_next_job_and_what_is_released_does_not(
    cast: Cast, attempt: Callable[[], Attempt], snapshot: DatasetSnapshot, cluster: list[Node], api: Api
) -> None:
    first = attempt()
    assert "TRAINMASTER_DATA_DROPPED" not in environment_of(cluster, first)
    say(first, shard="b.tar")
    say(first, sample=7)
    rows = [row.id for row in queries.unreadable_of(snapshot.id)]
    address = f"/api/v1/dataset-snapshots/{snapshot.id}/unreadable"
    client = api(cast.member)
    dropped = client.patch(address, {"row_ids": rows, "decision": "drop"}, format="json").json()["results"]
    assert {row["state"] for row in dropped} == {"dropped"}
    assert {row["decided_by"] for row in dropped} == {cast.member.username}
    told = environment_of(cluster, attempt())["TRAINMASTER_DATA_DROPPED"]
    assert from_text(told) == Dropped(frozenset({"b.tar"}), {("train", 10): frozenset({7})})
    client.patch(address, {"row_ids": rows, "decision": "release"}, format="json")
    assert "TRAINMASTER_DATA_DROPPED" not in environment_of(cluster, attempt())
    kinds = Event.objects.filter(subject_id=snapshot.id).values_list("kind", flat=True)
    assert (list(kinds).count("DataDropped"), list(kinds).count("DataReleased")) == (2, 2)


def test_what_was_released_and_fails_in_another_job_waits_again(
    cast: Cast, attempt: Callable[[], Attempt], snapshot: DatasetSnapshot
) -> None:
    first = attempt()
    say(first, shard="b.tar")
    (row,) = queries.unreadable_of(snapshot.id)
    services.review(actor_of(cast.member), snapshot, [row.id], "release")
    say(first, shard="b.tar")
    assert Unreadable.objects.get().state == "released"
    say(attempt(), shard="b.tar")
    assert Unreadable.objects.get().state == "open"


def test_a_bad_decision_and_a_row_of_another_version_are_refused_with_a_sentence(
    cast: Cast, snapshot: DatasetSnapshot, api: Api
) -> None:
    address = f"/api/v1/dataset-snapshots/{snapshot.id}/unreadable"
    refused = api(cast.member).patch(address, {"row_ids": [], "decision": "burn"}, format="json")
    assert (refused.status_code, "'burn' is neither drop nor release" in refused.json()["detail"]) == (
        400,
        True,
    )
    assert (
        api(cast.member).patch(address, {"row_ids": [10**6], "decision": "drop"}, format="json").status_code
        == 404
    )


def test_the_page_shows_them_and_drops_one(
    cast: Cast,
    attempt: Callable[[], Attempt],
    snapshot: DatasetSnapshot,
    browser: Callable[[User], Client],
) -> None:
    assert "Set aside by jobs" not in browser(cast.owner).get("/datasets/vision/faces/").content.decode()
    say(attempt(), shard="b.tar")
    page = browser(cast.viewer).get("/datasets/vision/faces/").content.decode()
    assert "to review" in page
    assert "Drop b.tar" not in page
    (row,) = queries.unreadable_of(snapshot.id)
    done = browser(cast.owner).post(
        f"/datasets/vision/faces/versions/{snapshot.id}/review/",
        {"row": row.id, "decision": "drop"},
        follow=True,
    )
    assert "Later jobs leave it out." in done.content.decode()
    assert queries.dropped(snapshot.id).shards == {"b.tar"}
