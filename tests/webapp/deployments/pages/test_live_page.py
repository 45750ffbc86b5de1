"""What a page that is open hears of a deployment, and what it says of a node that had to ask again."""

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from pytest_django import DjangoCaptureOnCommitCallbacks

from platform_core.node.observed import DeploymentObserved, TransferState
from tests.webapp.deployments.conftest import SIZE
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.deployments import queries, services
from webapp.deployments.models import Deployment, Worker
from webapp.deployments.values import Manner
from webapp.nodes.models import Node
from webapp.pages.deployments.numbers import numbers
from webapp.registry.models import ModelVersion
from webapp.sockets import outbox

SAID = DeploymentObserved(
    deployment_id="", state=TransferState.RECEIVING, bytes_done=10, bytes_total=SIZE, rate_in=1e6,
    source="store",
)  # fmt: skip


@pytest.fixture
def heard(
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> Iterator[Callable[..., list[dict[str, Any]]]]:
    """What goes to the watchers of the deployment when a node says this."""
    told: list[dict[str, Any]] = []
    subject = f"progress:{deployment.id}"
    monkeypatch.setattr(outbox, "put", lambda to, data: told.append(data) if to == subject else None)

    def say(node: str, **changes: Any) -> list[dict[str, Any]]:
        told.clear()
        with django_capture_on_commit_callbacks(execute=True):
            services.report(node, replace(SAID, deployment_id=deployment.id, **changes))
        return [data for data in told if data]

    return say


def test_the_socket_brings_new_chunks_only_and_the_map_is_read_again_when_some_are_gone(
    deployment: Deployment, heard: Callable[..., list[dict[str, Any]]]
) -> None:
    worker = queries.workers(deployment.id)[1]
    assert heard(worker.node_id, chunks_done=b"\x05") == [
        {"chunks": [[worker.position, "receiving", [0, 2]]]}
    ]
    assert heard(worker.node_id, chunks_done=b"\x05", bytes_done=20) == [], (
        "numbers alone are no news for the map"
    )
    assert heard(worker.node_id, chunks_done=b"\x85\x01") == [
        {"chunks": [[worker.position, "receiving", [7, 8]]]}
    ]
    assert heard(worker.node_id, chunks_done=b"\x01") == [{"map": "read again"}]
    (done,) = heard(worker.node_id, chunks_done=b"\x01", bytes_done=SIZE, state=TransferState.COMPLETE)
    assert done["chunks"] == [[worker.position, "complete", []]]


def test_a_node_that_asked_again_says_how_often_and_why_and_what_it_has_from_whom(
    deployment: Deployment,
    heard: Callable[..., list[dict[str, Any]]],
    owner: User,
    browser: Callable[[User], Client],
) -> None:
    first, second, *_ = queries.workers(deployment.id)
    why = f"{first.node_id} said nothing for 3 s"
    heard(second.node_id, retries=2, error=why, bytes_done=SIZE // 2, source=first.node_id)
    heard(second.node_id, retries=2, bytes_done=SIZE // 2, source=first.node_id)
    page = browser(owner).get(f"/deployments/{deployment.id}/").content.decode()
    assert f"asked again 2 times; last, {first.node.hostname} said nothing for 3 s" in page
    assert '.done">5 MiB</span> of 10 MiB' in page
    assert queries.workers(deployment.id)[1].state == "receiving"


def test_a_cap_counts_for_the_estimate_and_for_the_bound(
    version: ModelVersion, nodes: list[Node], owner: User, browser: Callable[[User], Client]
) -> None:
    row = services.create(actor_of(owner), "vision/bytelm", version.version, manner=Manner(rate_cap=1 << 20))
    assert 10_000 <= row.bound_ms <= row.estimated_ms <= 30_000, "10 MiB at 1 MiB/s"
    page = browser(owner).get(f"/deployments/{row.id}/").content.decode()
    assert "if each link carries 1 MiB/s, as configured" in page


def test_how_long_a_node_still_takes_is_said_as_a_time(
    deployment: Deployment,
    heard: Callable[..., list[dict[str, Any]]],
    owner: User,
    browser: Callable[[User], Client],
) -> None:
    first, *_ = queries.workers(deployment.id)
    heard(first.node_id, bytes_done=1)
    Worker.objects.filter(id=first.id).update(started_ms=now_ms() - 3_600_000, bytes_done=SIZE // 2)
    page = browser(owner).get(f"/deployments/{deployment.id}/").content.decode()
    assert '.ready">in 1 h</td>' in page
    began = Deployment.objects.get(id=deployment.id).started_ms
    heard(first.node_id, state=TransferState.COMPLETE, bytes_done=SIZE)
    Worker.objects.filter(id=first.id).update(finished_ms=began + 65_000)
    page = browser(owner).get(f"/deployments/{deployment.id}/").content.decode()
    assert '.ready">after 1 min 5 s</td>' in page


def test_once_it_has_ended_nothing_is_said_to_move(
    deployment: Deployment,
    heard: Callable[..., list[dict[str, Any]]],
    owner: User,
    browser: Callable[[User], Client],
) -> None:
    for worker in queries.workers(deployment.id):
        heard(worker.node_id, state=TransferState.COMPLETE, bytes_done=SIZE)
    page = browser(owner).get(f"/deployments/{deployment.id}/").content.decode()
    assert ("into all nodes together" in page, numbers(deployment.id)["kpi.moving"]) == (False, "–")


def test_what_the_socket_brings_is_what_the_page_shows_under_the_same_name(
    deployment: Deployment,
    heard: Callable[..., list[dict[str, Any]]],
    owner: User,
    browser: Callable[[User], Client],
    django_assert_num_queries: Any,
) -> None:
    first, second, *_ = queries.workers(deployment.id)
    heard(first.node_id, bytes_done=SIZE // 2, rate_in=3 << 20, store_bytes=SIZE // 2)
    heard(second.node_id, state=TransferState.FAILED, error="The disk is full.", error_code="disk_full")
    with django_assert_num_queries(2):
        told = numbers(deployment.id)
    page = browser(owner).get(f"/deployments/{deployment.id}/").content.decode()
    shown = dict(re.findall(r'<(?!progress|rect)[^>]* data-value="([^"]*)">([^<]*)<', page))
    assert shown.keys() <= told.keys()
    counting = {"answer", "kpi.left", f"w{first.position}.ready"}  # a moment later it is another
    assert {name: told[name] for name in shown.keys() - counting} == {
        name: text for name, text in shown.items() if name not in counting
    }
    assert (told["kpi.moving"], told[f"w{first.position}.percent"]) == ("3 MiB/s", "50 %")
    for name in re.findall(r'<(?:progress|rect)[^>]* data-value="([^"]*)"', page):
        assert told[name].endswith(" %")


def test_of_a_deployment_that_is_gone_there_are_no_numbers(db: None) -> None:
    assert numbers("dep-0000000000000000") == {}
