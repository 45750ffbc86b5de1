"""A dataset is used for approved purposes and projects; a lead requests more, its owner approves, and it expires."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import F
from rest_framework.test import APIClient

from platform_core.node.description import Telemetry
from platform_core.units import DAY_MS
from tests.webapp.conftest import Cast
from tests.webapp.jobs.conftest import *  # noqa: F403  a cluster
from tests.webapp.jobs.conftest import SPEC, tick
from tests.webapp.world import _manifest
from webapp.accounts.models import Mail, Membership, Role, Team, User
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.datasets import services
from webapp.datasets.models import AccessRequest, Dataset, DatasetSnapshot
from webapp.events.models import Event
from webapp.jobs import members
from webapp.jobs.models import Job, Member
from webapp.nodes import liveness
from webapp.nodes.models import Node
from webapp.rpc.wanted import manifests, wanted_states

pytestmark = pytest.mark.usefixtures("cluster")
Api = Callable[..., APIClient]


@pytest.fixture
def snapshot(cast: Cast, cluster: list[Node]) -> DatasetSnapshot:
    alice = actor_of(cast.owner)
    return services.add_snapshot(alice, "vision", "faces", _manifest(alice, "dataset"), "eval", ["maps"])


def submit(client: APIClient, snapshot: DatasetSnapshot, **more: Any) -> Any:
    body = {**SPEC, "num_gpus": 1, "dataset": snapshot.id, "purpose": "eval", "project": "maps", **more}
    return client.post("/api/v1/training-jobs", body, format="json")


def test_another_purpose_and_another_project_are_refused_with_both_named(
    cast: Cast, api: Api, snapshot: DatasetSnapshot
) -> None:
    assert submit(api(cast.owner), snapshot).status_code == 201
    refused = submit(api(cast.owner), snapshot, purpose="train", project="cars")
    assert refused.status_code == 422
    (problem,) = refused.json()["problems"]
    assert "approved for eval, and the job's purpose is train" in problem["sentence"]
    assert "approved for the project maps, and the job's project is cars" in problem["sentence"]


def ask(client: APIClient, **more: Any) -> Any:
    body = {"dataset_team": "vision", "dataset": "faces", "team": "vision", "purpose": "train", **more}
    return client.post("/api/v1/dataset-access", body, format="json")


def test_a_lead_requests_the_owner_approves_and_it_ends_at_its_time(
    cast: Cast, api: Api, snapshot: DatasetSnapshot
) -> None:
    assert ask(api(cast.member)).status_code == 403
    asked = ask(api(cast.lead), reason="for the demo").json()
    assert ask(api(cast.lead)).json()["id"] == asked["id"]
    assert submit(api(cast.owner), snapshot, purpose="train").status_code == 422
    decision = f"/api/v1/dataset-access/{asked['id']}"
    assert api(cast.member).post(decision, {"decision": "approve"}, format="json").status_code == 403
    approved = api(cast.owner).post(decision, {"decision": "approve", "days": 30}, format="json").json()
    assert (approved["state"], approved["decided_by"]) == ("approved", "alice")
    assert abs(approved["expires_ms"] - now_ms() - 30 * DAY_MS) < DAY_MS
    assert submit(api(cast.owner), snapshot, purpose="train").status_code == 201
    AccessRequest.objects.update(expires_ms=1)
    refused = submit(api(cast.owner), snapshot, purpose="train")
    assert "a grant for this use has expired" in refused.json()["problems"][0]["sentence"]
    kinds = list(Event.objects.filter(kind__startswith="Access").order_by("id").values_list("kind", "actor"))
    assert kinds == [("AccessRequested", "user:lena"), ("AccessApproved", "user:alice")]
    again = api(cast.owner).post(decision, {"decision": "refuse"}, format="json")
    assert again.status_code == 400


def test_an_admin_who_asks_for_a_team_that_there_is_not_is_told(
    cast: Cast, api: Api, snapshot: DatasetSnapshot
) -> None:
    refused = ask(api(cast.admin), team="robots")
    assert (refused.status_code, refused.json()["detail"]) == (404, "There is no team robots you may see")


def test_a_listed_dataset_is_seen_requested_and_granted_across_teams(
    cast: Cast, api: Api, nlp: Team, snapshot: DatasetSnapshot
) -> None:
    Membership.objects.filter(user=cast.outsider, team=nlp).update(role=Role.LEAD)
    other = api(cast.outsider, "nlp")
    card, one = "/api/v1/teams/vision/datasets/faces", f"/api/v1/dataset-snapshots/{snapshot.id}"
    assert other.get(card).status_code == 404
    assert ask(other, team="nlp").status_code == 404
    assert api(cast.owner).patch(card, {"listed": True, "licence": "CC0"}, format="json").status_code == 200
    assert other.get(card).json()["licence"] == "CC0"
    assert other.get(one).status_code == 404
    asked = ask(other, team="nlp").json()
    decision = f"/api/v1/dataset-access/{asked['id']}"
    assert other.post(decision, {"decision": "approve"}, format="json").status_code == 403
    assert api(cast.owner).post(decision, {"decision": "approve"}, format="json").status_code == 200
    assert other.get(one).json()["name"] == "faces"
    assert [row["id"] for row in other.get("/api/v1/datasets").json()["results"]] == [snapshot.id]
    assert api(cast.owner).post(decision, {"decision": "revoke"}, format="json").status_code == 200
    assert other.get(one).status_code == 404


def test_the_owner_changes_what_a_version_is_approved_for(
    cast: Cast, api: Api, snapshot: DatasetSnapshot
) -> None:
    one = f"/api/v1/dataset-snapshots/{snapshot.id}"
    body = {"purpose": "train,eval", "projects": []}
    assert api(cast.member).patch(one, body, format="json").status_code == 403
    assert api(cast.owner).patch(one, body, format="json").json()["projects"] == []
    assert submit(api(cast.owner), snapshot, purpose="train", project="cars").status_code == 201


def test_the_node_is_refused_the_bytes_of_a_use_that_is_not_approved_any_more(
    cast: Cast, api: Api, snapshot: DatasetSnapshot, cluster: list[Node]
) -> None:
    assert submit(api(cast.owner), snapshot).status_code == 201
    job = Job.objects.get()
    tick()
    (node,) = [each.id for each in cluster if members.wanted_on([each.id])[each.id]]
    asked = [(node, str(snapshot.manifest_id))]
    assert manifests(asked) != [None]
    services.approve_for(actor_of(cast.owner), snapshot, "report", [])
    assert manifests(asked) == [None]
    wanted_states([node])
    job.refresh_from_db()
    story = " ".join(Event.objects.filter(subject_id=job.id).values_list("cause", flat=True))
    assert "it is approved for report, and the job's purpose is eval" in story


def test_the_nodes_of_a_gang_are_told_to_fetch_from_each_other(
    cast: Cast, api: Api, snapshot: DatasetSnapshot, cluster: list[Node]
) -> None:
    """Four GPUs of nodes with two slots: a gang of two."""
    assert submit(api(cast.owner), snapshot, num_gpus=4).status_code == 201
    tick()
    states = wanted_states([node.id for node in cluster])
    launches = [attempt.launch for state in states for attempt in state.attempts if attempt.launch]
    assert len(launches) == 2
    orders = [launch.delivery for launch in launches if launch.delivery]
    assert {order.deployment_id for order in orders} == {f"data-{snapshot.manifest_id}"}
    first_sources = [lane[0] for order in orders for lane in order.lanes]
    assert sorted(source == "store" for source in first_sources) == [
        False,
        False,
        True,
        True,
    ]  # one copy in two lanes
    assert all(order.signature and order.transfer_token for order in orders)


def test_a_job_is_placed_on_the_node_that_holds_its_dataset(
    cast: Cast, api: Api, snapshot: DatasetSnapshot, cluster: list[Node]
) -> None:
    for node in cluster:
        held = (str(snapshot.manifest_id),) if node.hostname == "node-2" else ("man-of-another",)
        liveness.heard(node.id, Telemetry(10**12, 0, holds=held), now_ms())
    assert submit(api(cast.owner), snapshot).status_code == 201
    tick()
    job = Job.objects.get()
    (member,) = Member.objects.filter(attempt__job=job)
    assert member.node_id == next(node.id for node in cluster if node.hostname == "node-2")
    assert "its dataset is there already" in " ".join(
        Event.objects.filter(subject_id=job.id).values_list("cause", flat=True)
    )


def test_the_owner_hears_of_a_request_and_who_asked_of_the_decision(
    cast: Cast, api: Api, snapshot: DatasetSnapshot, settings: Any
) -> None:
    settings.MAIL_URL = "smtp://mail.example.org:25"
    User.objects.filter(id__in=[cast.owner.id, cast.lead.id]).update(email=F("username"))
    request = ask(api(cast.lead), reason="to compare").json()["id"]
    (mail,) = Mail.objects.all()
    assert (mail.to, mail.subject) == (
        cast.owner.username,
        "Trainmaster: access to dataset faces is requested",
    )
    assert "the use of dataset vision/faces by team vision for train.\n\nto compare" in mail.text
    body = {"decision": "approve", "days": 1}
    assert api(cast.owner).post(f"/api/v1/dataset-access/{request}", body, format="json").status_code == 200
    answer = Mail.objects.get(to=cast.lead.username)
    assert answer.subject == "Trainmaster: access to dataset faces is approved"
    assert "for train for 1 day." in answer.text


def test_the_leads_hear_of_a_request_for_a_dataset_without_an_owner(
    cast: Cast, api: Api, snapshot: DatasetSnapshot, settings: Any
) -> None:
    settings.MAIL_URL = "smtp://mail.example.org:25"
    User.objects.update(email=F("username"))
    Dataset.objects.update(owner=None)
    assert ask(api(cast.admin)).status_code == 201
    assert [mail.to for mail in Mail.objects.all()] == [cast.lead.username]
