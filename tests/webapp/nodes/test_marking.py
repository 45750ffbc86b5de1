"""Labels and taints that operators give to nodes."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from webapp.accounts.models import User
from webapp.events.models import Event
from webapp.nodes import queries, services
from webapp.nodes.models import Node

Join = Callable[..., Node]
Browser = Callable[[User], Client]


@pytest.fixture
def rest(admin: User) -> APIClient:
    client = APIClient()
    client.force_login(admin)
    return client


def test_an_operator_marks_a_node_and_it_is_written_down(node: Join, admin: User, browser: Browser) -> None:
    one = node()
    client = browser(admin)
    answer = client.post(
        f"/nodes/{one.id}/mark/", {"labels": "nvlink=yes\r\nzone=a, fabric=ib", "taints": "lab"}
    )
    assert answer.status_code == 302
    (view,) = queries.snapshot_nodes()
    assert view.labels == (("fabric", "ib"), ("nvlink", "yes"), ("zone", "a"))
    assert view.taints == ("lab",)
    event = Event.objects.get(kind="NodeMarked")
    assert (event.actor, event.cause) == ("user:root", "fabric=ib, nvlink=yes, zone=a, taint lab (was: none)")
    page = client.get(f"/nodes/{one.id}/").content.decode()
    assert "taint lab" in page
    assert "nvlink=yes" in page


def test_a_label_of_an_operator_counts_before_that_of_the_agent(node: Join, admin: User, actor: Any) -> None:
    one = node()
    Node.objects.filter(id=one.id).update(labels={"zone": "a", "disk": "nvme"})
    services.mark(actor(admin), one.id, labels={"zone": "b"})
    (view,) = queries.snapshot_nodes()
    assert view.labels == (("disk", "nvme"), ("zone", "b"))


def test_over_rest_what_is_left_out_stays(node: Join, rest: APIClient) -> None:
    one = node()
    address = f"/api/v1/nodes/{one.id}"
    assert rest.patch(address, {"labels": {"nvlink": "yes"}}, format="json").json()["labels"] == [
        "nvlink=yes"
    ]
    told = rest.patch(address, {"taints": ["lab", "lab"]}, format="json").json()
    assert (told["labels"], told["taints"]) == (["nvlink=yes"], ["lab"])
    assert rest.patch(address, {"labels": {}, "taints": []}, format="json").json()["taints"] == []


@pytest.mark.parametrize(
    "body",
    [
        {"labels": {"a b": "c"}},
        {"labels": {"a": ""}},
        {"taints": ["two words"]},
        {"taints": "lab"},
        {"labels": 5},
    ],
)
def test_what_is_no_word_is_refused(node: Join, rest: APIClient, body: dict[str, Any]) -> None:
    one = node()
    assert rest.patch(f"/api/v1/nodes/{one.id}", body, format="json").status_code == 400
    assert not Event.objects.filter(kind="NodeMarked").exists()


def test_marking_twice_alike_is_told_once(node: Join, admin: User, actor: Any) -> None:
    one = node()
    for _ in range(2):
        services.mark(actor(admin), one.id, taints=["lab"])
    assert Event.objects.filter(kind="NodeMarked").count() == 1
