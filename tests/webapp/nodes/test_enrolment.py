from collections.abc import Callable
from dataclasses import replace

import pytest
from django.test import Client

from platform_core.errors import TrainmasterError
from platform_core.node.description import SlotDescription
from tests.webapp.conftest import BOOTSTRAP, Cast, description
from webapp.accounts.models import User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.nodes import queries, services
from webapp.nodes.models import BootstrapToken, Node, Slot

ActorOf = Callable[[User], Actor]


def refusal_of(call: Callable[[], object]) -> str:
    with pytest.raises(TrainmasterError) as refusal:
        call()
    return refusal.value.code


def test_a_machine_joins_and_its_credential_opens_its_sessions() -> None:
    node_id, credential = services.join(BOOTSTRAP, description(slots=2))
    assert services.authenticate(credential) == node_id
    node = Node.objects.get(id=node_id)
    assert (node.hostname, node.state, node.slots.count()) == ("node-1", "lost", 2)
    assert credential not in str(Node.objects.values())
    assert Event.objects.get(subject_id=node_id).kind == "NodeJoined"


def test_a_token_made_in_the_browser_lets_machines_join_until_it_is_revoked() -> None:
    made = services.create_bootstrap_token(SYSTEM, "rack 3", 24)
    assert made.text not in str(BootstrapToken.objects.values())
    services.join(made.text, description("node-1"))
    services.join(made.text, description("node-2"))
    services.revoke_bootstrap_token(SYSTEM, made.id)
    assert refusal_of(lambda: services.join(made.text, description("node-3"))) == "bootstrap_token_invalid"


def test_an_expired_or_invented_token_lets_nobody_in() -> None:
    made = services.create_bootstrap_token(SYSTEM, "rack 3", 1)
    BootstrapToken.objects.update(expires_ms=now_ms())
    for text in (made.text, "tmb_invented", "", BOOTSTRAP + "x"):
        assert refusal_of(lambda text=text: services.join(text, description())) == "bootstrap_token_invalid"  # type: ignore[misc]
    assert not Node.objects.exists()


def test_without_a_token_in_the_settings_the_empty_token_is_not_one(settings: object) -> None:
    settings.BOOTSTRAP_TOKEN = ""  # type: ignore[attr-defined]
    assert refusal_of(lambda: services.join("", description())) == "bootstrap_token_invalid"


def test_a_bootstrap_token_alone_does_not_take_over_a_node_that_is_alive(node: Callable[..., Node]) -> None:
    alive = node("node-1")
    assert refusal_of(lambda: services.join(BOOTSTRAP, description("node-1"), alive.id)) == "node_alive"
    assert Node.objects.get().credential_digest == alive.credential_digest


def test_a_dead_node_joins_again_by_a_token_only_once_an_operator_lets_it(cast: Cast, actor: ActorOf) -> None:
    node_id, first = services.join(BOOTSTRAP, description())
    assert refusal_of(lambda: services.join(BOOTSTRAP, description(), node_id)) == "rejoin_refused"
    assert services.authenticate(first) == node_id
    services.readmit(actor(cast.admin), node_id)
    assert services.join(BOOTSTRAP, description(), node_id)[0] == node_id
    assert refusal_of(lambda: services.join(BOOTSTRAP, description(), node_id)) == "rejoin_refused"


def test_an_operator_sees_on_the_page_of_a_lost_node_that_it_may_be_let_in_again(
    cast: Cast, browser: Callable[[User], Client]
) -> None:
    node_id, _ = services.join(BOOTSTRAP, description())
    page = f"/nodes/{node_id}/"
    assert "Readmit" in browser(cast.admin).get(page).content.decode()
    assert "Readmit" not in browser(cast.lead).get(page).content.decode()
    browser(cast.admin).post(f"{page}readmit/")
    assert "Readmit" not in browser(cast.admin).get(page).content.decode()


def test_an_agent_that_kept_its_credential_gets_a_new_one_as_the_same_node() -> None:
    node_id, first = services.join(BOOTSTRAP, description())
    again, second = services.join(BOOTSTRAP, description(slots=4), node_id, first)
    assert again == node_id
    assert refusal_of(lambda: services.authenticate(first)) == "credential_invalid"
    assert services.authenticate(second) == node_id
    assert Slot.objects.filter(node=node_id).count() == 4


def test_a_copied_disk_does_not_take_the_place_of_the_machine_it_came_from() -> None:
    node_id, credential = services.join(BOOTSTRAP, description("node-1"))
    other, _ = services.join(BOOTSTRAP, description("node-2"), node_id)
    assert other != node_id
    assert services.authenticate(credential) == node_id


def test_an_id_from_an_earlier_database_makes_a_new_node() -> None:
    node_id, _ = services.join(BOOTSTRAP, description(), "node-0000000000000000")
    assert node_id != "node-0000000000000000"


def test_a_revoked_node_is_shut_out_until_an_operator_lets_it_join_again(cast: Cast, actor: ActorOf) -> None:
    node_id, credential = services.join(BOOTSTRAP, description())
    services.revoke(actor(cast.admin), node_id)
    assert refusal_of(lambda: services.authenticate(credential)) == "credential_revoked"
    assert refusal_of(lambda: services.join(BOOTSTRAP, description(), node_id)) == "credential_revoked"
    assert refusal_of(lambda: queries.wanted_revisions([node_id])) == "credential_revoked"
    assert queries.revisions([node_id])[node_id][1]
    assert queries.snapshot_nodes() == ()

    services.readmit(actor(cast.admin), node_id)
    assert refusal_of(lambda: services.authenticate(credential)) == "credential_invalid"
    again, fresh = services.join(BOOTSTRAP, description(), node_id)
    assert (again, services.authenticate(fresh)) == (node_id, node_id)


def test_leads_and_members_operate_no_nodes(cast: Cast, actor: ActorOf) -> None:
    node_id, _ = services.join(BOOTSTRAP, description())
    for do in (services.drain, services.resume, services.revoke, services.readmit):
        assert refusal_of(lambda do=do: do(actor(cast.lead), node_id)) == "not_allowed"  # type: ignore[misc]


def test_the_hello_describes_the_node_anew() -> None:
    node_id, _ = services.join(BOOTSTRAP, description(slots=2))
    changed = replace(description(slots=2), agent_version="0.2.0", labels={"zone": "b"})
    services.hello(node_id, replace(changed, slots=(SlotDescription(0, "slot 0"), SlotDescription(5, "new"))))
    node = Node.objects.get(id=node_id)
    assert (node.agent_version, node.labels, node.state) == ("0.2.0", {"zone": "b"}, "ready")
    assert list(node.slots.order_by("index").values_list("index", flat=True)) == [0, 5]


def test_a_slot_that_is_gone_stays_while_an_attempt_holds_it(node: Callable[..., Node]) -> None:
    one = node(slots=2)
    services.assign_slots({"att-1": [(one.id, [1])]})
    services.hello(one.id, description(slots=1))
    assert one.slots.count() == 2
    services.release_slots({("att-1", one.id)})
    services.hello(one.id, description(slots=1))
    assert one.slots.count() == 1


def test_a_hello_that_says_nothing_new_is_no_event(node: Callable[..., Node]) -> None:
    one = node()
    before = Event.objects.count()
    services.hello(one.id, description())
    assert Event.objects.count() == before


def test_a_hello_of_nobody_is_refused() -> None:
    assert refusal_of(lambda: services.hello("node-0000000000000000", description())) == "node_unknown"
