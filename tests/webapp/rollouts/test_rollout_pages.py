"""Rollouts over REST and in the browser, and who may move them."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from tests.webapp.rollouts.acting import Agents, rounds
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.deployments.models import Deployment
from webapp.nodes.models import Node
from webapp.registry.models import ModelVersion
from webapp.rollouts import services as rollouts
from webapp.rollouts.models import Rollout


def test_rollouts_over_rest(
    api: Callable[..., APIClient], owner: User, versions: list[ModelVersion], agents: Agents
) -> None:
    client = api(owner)
    wish = {"canary": "34%", "hold_seconds": None, "health_check": "check-model", "hook": "reload"}
    body = {"model_id": "vision/bytelm", "version": 1, "rollout": wish}
    made = client.post("/api/v1/deployments", body, format="json").json()
    row = Deployment.objects.get(id=made["id"])
    assert made["rollout"]["canaries"] == ["node-0", "node-1"]
    agents.hold(row)
    rounds(agents)
    told = client.get(f"/api/v1/deployments/{row.id}").json()["rollout"]
    assert (told["state"], told["nodes_active"], told["nodes"]) == ("holding", 2, 3)
    assert told["awaits_promotion"]
    assert told["checks"] == [
        {"node": name, "exit_code": 0, "output": "a\nperplexity 9", "failures": 0}
        for name in ("node-0", "node-1")
    ]
    told = client.post(f"/api/v1/deployments/{row.id}/promote").json()["rollout"]
    assert (told["state"], told["awaits_promotion"]) == ("holding", False), "they are checked once more"
    rounds(agents)
    assert client.get(f"/api/v1/deployments/{row.id}").json()["rollout"]["state"] == "active"
    assert client.post(f"/api/v1/deployments/{row.id}/promote").status_code == 409
    back = client.post(f"/api/v1/deployments/{row.id}/rollback").json()["rollout"]
    assert (back["state"], back["nodes_going_back"]) == ("rolled_back", 3)
    rounds(agents)
    assert client.get(f"/api/v1/deployments/{row.id}").json()["rollout"]["nodes_going_back"] == 0


def test_a_deployment_that_activates_nothing_has_no_rollout_to_promote(
    api: Callable[..., APIClient], owner: User, versions: list[ModelVersion], nodes: list[Node]
) -> None:
    client = api(owner)
    for rollout in (None, {"activate": False}):
        body = {"model_id": "vision/bytelm", "version": 1, "rollout": rollout}
        made = client.post("/api/v1/deployments", body, format="json").json()
        assert made["rollout"] is None
        refusal = client.post(f"/api/v1/deployments/{made['id']}/promote")
        assert (refusal.status_code, "only brought the bytes" in refusal.json()["detail"]) == (400, True)


@pytest.mark.parametrize(
    ("who", "status"),
    [("owner", 200), ("member", 403), ("lead", 200), ("outsider", 404), ("admin", 200), ("viewer", 403)],
)
@pytest.mark.parametrize("verb", ["promote", "rollback"])
def test_who_may_promote_and_roll_back(
    who: str, status: int, verb: str, api: Callable[..., APIClient], browser: Callable[[User], Client],
    deploy: Callable[..., Deployment], agents: Agents, request: pytest.FixtureRequest,
) -> None:  # fmt: skip
    row = deploy(1)
    agents.hold(row)
    rounds(agents)
    person: User = request.getfixturevalue(who)
    page = browser(person).post(f"/deployments/{row.id}/{verb}/")
    assert page.status_code == (302 if status == 200 else status)
    if who == "admin":
        return  # a token is never an admin's
    client = api(person, "nlp" if who == "outsider" else "vision")
    assert client.post(f"/api/v1/deployments/{row.id}/{verb}").status_code == status


def test_the_page_tells_how_far_it_is_and_who_is_a_canary(
    first: Deployment,
    deploy: Callable[..., Deployment],
    agents: Agents,
    browser: Callable[[User], Client],
    owner: User,
) -> None:
    agents.health = 7
    row = deploy(2)
    agents.hold(row)
    rounds(agents)
    page = browser(owner).get(f"/deployments/{row.id}/").content.decode()
    for words in ("node-0: check-model ended with 7", "perplexity 9", "Roll back", "canary"):
        assert words in page
    assert "Promote" not in page, "what has failed cannot be promoted"


def test_a_version_that_another_has_replaced_is_not_called_active(
    first: Deployment,
    deploy: Callable[..., Deployment],
    agents: Agents,
    browser: Callable[[User], Client],
    owner: User,
) -> None:
    row = deploy(2)
    agents.hold(row)
    rounds(agents)
    client = browser(owner)
    assert "Version 2 came after it." in client.get(f"/deployments/{first.id}/").content.decode()
    rollouts.promote(actor_of(owner), row.id)
    rounds(agents)
    page = client.get(f"/deployments/{first.id}/").content.decode()
    assert "Replaced by v2" in page
    assert "Roll back" not in page
    listed = client.get("/deployments/").content.decode()
    assert listed.count("replaced by v2") == 1
    told = client.get(f"/api/v1/deployments/{first.id}").json()["rollout"]
    assert (told["state"], told["replaced_by"]) == ("active", 2)
    rollouts.roll_back(actor_of(owner), row.id)
    assert "replaced by" not in client.get("/deployments/").content.decode()


def test_the_form_of_a_deployment_says_how_the_nodes_switch(
    browser: Callable[[User], Client], owner: User, versions: list[ModelVersion], nodes: list[Node]
) -> None:
    client = browser(owner)
    given = {"model_version": versions[0].id, "targets": [node.id for node in nodes]}
    client.post("/deployments/create/", {**given, "hook": " ", "canary": ""})
    assert not Rollout.objects.exists(), "the bytes alone"
    client.post(
        "/deployments/create/", {**given, "canary": "1", "hold_minutes": "5", "health_check": "check-model"}
    )
    made = Rollout.objects.get()
    assert (made.canaries, made.hold_ms, made.health_check) == (1, 300_000, "check-model")
    refused = client.post("/deployments/create/", {**given, "activate": "1", "hold_minutes": "soon"})
    assert "leave it empty to promote by hand" in refused.content.decode()


def test_a_check_that_should_have_been_asked_for_is_due(
    browser: Callable[[User], Client], owner: User, deploy: Callable[..., Deployment], agents: Agents
) -> None:
    row = deploy(1)
    agents.hold(row)
    rounds(agents)
    Rollout.objects.filter(deployment=row).update(asked_ms=1)
    assert (
        "1 round of checks so far; the next is due."
        in browser(owner).get(f"/deployments/{row.id}/").content.decode()
    )
