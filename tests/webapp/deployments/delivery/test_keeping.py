"""What stays on the nodes: given up for room, preheated, pinned, planned."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from platform_core.distribution.planning.forest import STORE
from tests.webapp.deployments.conftest import SIZE
from tests.webapp.deployments.test_life import report
from tests.webapp.orders import wanted_on
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.deployments import queries, services
from webapp.deployments.delivery import keeping
from webapp.deployments.models import Deployment, Worker
from webapp.deployments.values import Manner
from webapp.events.queries import story
from webapp.nodes.models import Node
from webapp.registry import services as registry
from webapp.registry.models import ModelVersion

REASON = "93 % of the disk were in use, more than 90 %; this had been unused the longest"
PREHEAT = Manner(preheat=True)


def deploy(owner: User, number: int = 1, manner: Manner = Manner()) -> Deployment:
    return services.create(actor_of(owner), "vision/bytelm", number, manner=manner)


def wanted(node: str) -> list[str]:
    return sorted(each.deployment_id for each in wanted_on(node))


@pytest.fixture
def three_versions(version: ModelVersion, owner: User, nodes: list[Node]) -> None:
    for _ in range(2):
        registry.register(actor_of(owner), "vision", "bytelm", manifest=version.manifest_id or "")


@pytest.fixture
def complete(version: ModelVersion, owner: User, nodes: list[Node]) -> Deployment:
    made = deploy(owner)
    for worker in queries.workers(made.id):
        report(made, worker.node_id, "complete", SIZE)
    return queries.find(made.id) or made


def give_up(deployment: Deployment, count: int) -> list[str]:
    gone = [worker.node_id for worker in queries.workers(deployment.id)[:count]]
    for node in gone:
        report(deployment, node, "evicted", 0, error=REASON)
    return gone


def page(browser: Callable[[User], Client], user: User, address: str) -> str:
    answer = browser(user).get(address)
    assert answer.status_code == 200
    return answer.content.decode()


def test_what_a_node_gave_up_is_not_wanted_of_it_any_more_and_nothing_has_failed(
    complete: Deployment, owner: User, browser: Callable[[User], Client], api: Callable[..., APIClient]
) -> None:
    before = Node.objects.get(id=queries.workers(complete.id)[0].node_id).wanted_revision
    [gone] = give_up(complete, 1)
    assert wanted(gone) == []
    assert Node.objects.get(id=gone).wanted_revision == before + 1, "the agent hears of it"
    row = queries.find(complete.id)
    assert (row.state, row.reason) == ("complete", "")
    told = api(owner).get(f"/api/v1/deployments/{complete.id}").json()
    assert (told["status"], told["workers_complete"], told["workers_evicted"], told["workers_failed"]) == (
        "complete", 3, 1, 0,
    )  # fmt: skip
    assert told["reason"] == f"{Node.objects.get(id=gone).hostname} gave it up: {REASON}"
    shown = page(browser, owner, f"/deployments/{complete.id}/")
    assert "Still on 3 of 4 nodes: evicted from 1 to free disk space" in shown
    assert "more than 90 %" in shown
    assert "Fetch it again" in shown
    assert [event.kind for event in story(f"deployment:{complete.id}")][-1] == "WorkerEvicted"


def test_a_model_that_is_on_no_node_any_more_is_shown_as_evicted(
    complete: Deployment, owner: User, browser: Callable[[User], Client], api: Callable[..., APIClient]
) -> None:
    give_up(complete, 4)
    told = api(owner).get(f"/api/v1/deployments/{complete.id}").json()
    assert (told["status"], told["workers_evicted"]) == ("evicted", 4)
    assert REASON in told["reason"]
    assert "On no node: evicted from 4 to free disk space" in page(
        browser, owner, f"/deployments/{complete.id}/"
    )
    listed = page(browser, owner, "/deployments/")
    assert "evicted" in listed
    assert "4 evicted" in listed


def test_nobody_is_sent_to_a_node_that_gave_its_copy_up(
    version: ModelVersion, owner: User, nodes: list[Node]
) -> None:
    made = deploy(owner)
    feeding = queries.workers(made.id)[0].node_id
    report(made, feeding, "complete", SIZE)
    report(made, feeding, "evicted", 0, error=REASON)
    left = [worker for worker in queries.workers(made.id) if worker.node_id != feeding]
    assert feeding not in {source for worker in left for lane in worker.lanes for source in lane}
    services.retry(actor_of(owner), made.id)
    assert Worker.objects.get(deployment=made, node=feeding).seated is True


def test_the_model_page_names_the_newest_deployments_and_leads_to_the_others(
    complete: Deployment, owner: User, browser: Callable[[User], Client]
) -> None:
    give_up(complete, 4)
    assert "evicted" in page(browser, owner, "/models/vision/bytelm/")
    for _ in range(4):
        deploy(owner)
    shown = page(browser, owner, "/models/vision/bytelm/")
    assert complete.id not in shown
    assert '/deployments/history/?model=vision%2Fbytelm&amp;days=365">and 2 before' in shown


def test_it_is_fetched_again_when_somebody_asks(complete: Deployment, owner: User) -> None:
    [gone] = give_up(complete, 1)
    services.retry(actor_of(owner), complete.id)
    assert wanted(gone) == [complete.id]
    assert wanted_on(gone)[0].retry == 1
    report(complete, gone, "complete", SIZE)
    assert queries.progress_of(complete).workers_complete == 4


def test_an_older_deployment_of_what_was_given_up_does_not_bring_it_back(
    complete: Deployment, owner: User
) -> None:
    again = deploy(owner)
    for worker in queries.workers(again.id):
        report(again, worker.node_id, "complete", SIZE)
    [gone] = give_up(again, 1)
    assert wanted(gone) == []
    third = deploy(owner)
    assert wanted(gone) == [third.id], "but a new one does"


@pytest.mark.usefixtures("three_versions")
def test_what_is_preheated_takes_no_place_of_what_is_in_use(owner: User, nodes: list[Node]) -> None:
    first, second = deploy(owner, 1), deploy(owner, 2)
    third = deploy(owner, 3, PREHEAT)
    assert wanted(nodes[0].id) == sorted([first.id, second.id, third.id])
    assert [each.preheat for each in wanted_on(nodes[0].id) if each.deployment_id == third.id] == [True]
    assert third.priority < first.priority
    now_in_use = deploy(owner, 3)
    assert wanted(nodes[0].id) == sorted([second.id, third.id, now_in_use.id])


@pytest.mark.usefixtures("three_versions")
def test_what_is_pinned_stays_beyond_the_newest_versions(owner: User, nodes: list[Node]) -> None:
    first = deploy(owner, 1, Manner(pin=True))
    second, third = deploy(owner, 2), deploy(owner, 3)
    assert wanted(nodes[0].id) == sorted([first.id, second.id, third.id])
    assert {each.deployment_id: each.pinned for each in wanted_on(nodes[0].id)}[first.id]
    keeping.pin(actor_of(owner), first.id, False)
    assert wanted(nodes[0].id) == sorted([second.id, third.id])


def test_a_pin_is_set_over_rest_and_on_the_page_and_its_nodes_hear_of_it(
    complete: Deployment, owner: User, browser: Callable[[User], Client], api: Callable[..., APIClient]
) -> None:
    node = queries.workers(complete.id)[0].node_id
    before = Node.objects.get(id=node).wanted_revision
    address = f"/api/v1/deployments/{complete.id}"
    assert api(owner).patch(address, {"pin": True}, format="json").json()["pinned"] is True
    assert api(owner).patch(address, {"pin": True}, format="json").json()["pinned"] is True
    assert Node.objects.get(id=node).wanted_revision == before + 1
    assert "Unpin" in page(browser, owner, f"/deployments/{complete.id}/")
    browser(owner).post(f"/deployments/{complete.id}/pin/", {"pin": "0"})
    assert not Deployment.objects.get(id=complete.id).pinned
    kinds = [event.kind for event in story(f"deployment:{complete.id}")]
    assert (kinds.count("DeploymentPinned"), kinds.count("DeploymentUnpinned")) == (1, 1)
    assert api(owner).patch(address, {"pin": "perhaps"}, format="json").status_code == 400


def test_a_cancelled_deployment_cannot_be_pinned(
    version: ModelVersion,
    owner: User,
    nodes: list[Node],
    api: Callable[..., APIClient],
) -> None:
    made = deploy(owner)
    services.cancel(actor_of(owner), made.id)
    refused = api(owner).patch(f"/api/v1/deployments/{made.id}", {"pin": True}, format="json")
    assert refused.status_code == 400
    assert "cancelled" in refused.json()["detail"]


def test_preheat_and_strategy_over_rest(
    version: ModelVersion,
    owner: User,
    nodes: list[Node],
    api: Callable[..., APIClient],
) -> None:
    body = {"model_id": "vision/bytelm", "version": 1, "preheat": True, "pin": True, "strategy": "chain"}
    made = api(owner).post("/api/v1/deployments", body, format="json").json()
    assert (made["preheat"], made["pinned"], made["strategy"]) == (True, True, "chain")
    sources = [worker.lanes for worker in queries.workers(made["id"])]
    assert [len(lanes) for lanes in sources] == [1, 1, 1, 1]
    assert [lanes[0][0] == STORE for lanes in sources].count(True) == 1, "one node pulls, the others follow"
    refused = api(owner).post("/api/v1/deployments", {**body, "strategy": "teleport"}, format="json")
    assert refused.status_code == 400


def test_the_plan_compares_the_strategies_and_moves_nothing(
    version: ModelVersion,
    owner: User,
    nodes: list[Node],
    api: Callable[..., APIClient],
) -> None:
    body = {
        "model_id": "vision/bytelm",
        "version": 1,
        "target_workers": [node.hostname for node in nodes[:3]],
    }
    told = api(owner).post("/api/v1/deployments/plan", body, format="json").json()
    assert (told["workers"], told["bytes"]) == (3, SIZE)
    assert {one["strategy"] for one in told["strategies"]} == {
        "mesh", "chain", "pipelines", "binary_tree", "sequential",
    }  # fmt: skip
    times = [one["time_seconds"] for one in told["strategies"]]
    assert times == sorted(times)
    assert min(times) >= told["bound_seconds"] > 0
    assert told["strategy"] == "mesh", "so little takes less than a second whatever is chosen"
    assert told["short_of_room"] == []
    same = api(owner).get("/api/v1/deployments/plan", {**body, "strategy": "auto"}).json()
    assert same == told
    assert (
        api(owner).get("/api/v1/deployments/plan", {**body, "strategy": "mesh"}).json()["strategy"] == "mesh"
    )
    assert not Deployment.objects.exists()


def test_a_deployment_from_the_form_may_only_preheat(
    version: ModelVersion,
    owner: User,
    nodes: list[Node],
    browser: Callable[[User], Client],
) -> None:
    form = {"model_version": version.id, "targets": [nodes[0].id], "preheat": "1", "strategy": "auto"}
    answer = browser(owner).post("/deployments/create/", form)
    assert answer.status_code == 302
    row = Deployment.objects.get()
    assert (row.preheat, row.pinned) == (True, False)
    assert row.strategy != "auto", "what was taken is kept"
    assert row.bound_ms > 0
    assert "preheated" in page(browser, owner, f"/deployments/{row.id}/")
    assert Worker.objects.filter(deployment=row).count() == 1
