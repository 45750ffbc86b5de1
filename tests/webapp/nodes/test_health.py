import asyncio
from collections.abc import Callable

import pytest

from platform_core.node.description import SlotTelemetry, Telemetry
from tests.webapp.conftest import Cast, description
from webapp.accounts.models import User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.events.models import Event
from webapp.nodes import liveness, queries, services
from webapp.nodes.models import Node
from webapp.nodes.signals import capacity_changed

Join = Callable[..., Node]
ActorOf = Callable[[User], Actor]
SECOND = 1000


def heard(node: Node) -> int:
    """When it was last heard."""
    node.refresh_from_db()
    return node.last_seen_ms


def state(node: Node) -> str:
    node.refresh_from_db()
    return node.state


def test_a_silent_node_is_suspect_after_ten_seconds_and_lost_after_thirty(node: Join) -> None:
    one = node()
    last = heard(one)
    assert services.sweep(last + 9 * SECOND) == ()
    assert state(one) == "ready"
    assert services.sweep(last + 10 * SECOND) == ()
    assert state(one) == "suspect"
    assert services.sweep(last + 30 * SECOND) == (one.id,)
    assert state(one) == "lost"
    assert services.sweep(last + 60 * SECOND) == ()
    event = Event.objects.get(kind="NodeLost")
    assert event.cause == "no heartbeat for 30 s, the limit is 30 s"
    assert event.data["name"] == "node-1"
    assert not event.data["drain_requested"]


def test_one_that_is_switched_off_after_it_was_told_to_drain_is_lost_as_such(node: Join) -> None:
    one = node()
    services.drain(SYSTEM, one.id)
    services.sweep(heard(one) + 31 * SECOND)
    assert state(one) == "lost"
    assert Event.objects.get(kind="NodeLost").data["drain_requested"]


def test_a_lost_node_that_still_holds_slots_is_named_until_it_was_dealt_with(node: Join) -> None:
    one = node()
    services.assign_slots({"att-1": [(one.id, [0])]})
    last = heard(one)
    assert services.sweep(last + 31 * SECOND) == (one.id,)
    assert services.sweep(last + 33 * SECOND) == (one.id,)
    services.release_slots({("att-1", one.id)})
    assert services.sweep(last + 35 * SECOND) == ()


def test_a_suspect_node_that_is_heard_again_is_ready_again(node: Join) -> None:
    one = node()
    last = heard(one)
    services.sweep(last + 11 * SECOND)
    liveness.saw(one.id, last + 20 * SECOND)
    services.sweep(last + 21 * SECOND)
    assert state(one) == "ready"


def test_a_lost_node_takes_nothing_until_it_has_said_hello_again(node: Join) -> None:
    one = node()
    last = heard(one)
    services.sweep(last + 31 * SECOND)
    liveness.saw(one.id, last + 40 * SECOND)
    services.sweep(last + 41 * SECOND)
    assert state(one) == "lost"
    services.hello(one.id, description())
    assert state(one) == "ready"


def test_heartbeats_keep_a_node_ready_and_write_no_row(
    node: Join, django_assert_num_queries: Callable[[int], object]
) -> None:
    one = node()
    telemetry = Telemetry(10, 20, (SlotTelemetry(0, utilisation=0.5), SlotTelemetry(1)))

    async def beats() -> None:
        await asyncio.gather(*(services.heartbeat(one.id, telemetry) for _ in range(50)))

    with django_assert_num_queries(0):  # type: ignore[attr-defined]
        asyncio.run(beats())
    assert queries.telemetry([one.id, "node-unknown"]) == {one.id: telemetry}
    assert queries.last_seen({one.id: 0})[one.id] >= heard(one)


@pytest.mark.parametrize(("free", "takes_work"), [(1, False), (2**28 - 1, False), (2**28, True), (0, True)])
def test_a_node_whose_disk_is_full_is_given_no_jobs(node: Join, free: int, takes_work: bool) -> None:
    one = node()
    assert queries.snapshot_nodes()[0].takes_work
    asyncio.run(services.heartbeat(one.id, Telemetry(free, 1)))
    assert queries.snapshot_nodes()[0].takes_work is takes_work
    asyncio.run(services.heartbeat(one.id, Telemetry(2**40, 1)))
    assert queries.snapshot_nodes()[0].takes_work, "there is room again"


def test_many_heartbeats_at_once_share_their_writes(node: Join) -> None:
    nodes = [node(f"node-{index}").id for index in range(20)]
    before = liveness.client().info("stats")["total_commands_processed"]

    async def beats() -> None:
        await asyncio.gather(*(services.heartbeat(one, Telemetry(1, 1)) for one in nodes))

    asyncio.run(beats())
    assert set(queries.telemetry(nodes)) == set(nodes)
    spent = liveness.client().info("stats")["total_commands_processed"] - before
    assert spent < 3 * len(nodes)  # two SETs for each, and few ZADDs for all


def test_a_platform_that_was_away_loses_no_node(node: Join) -> None:
    one = node()
    last = heard(one)
    liveness.listening(last)
    night = last + 3_600 * SECOND
    services.sweep(night)
    assert state(one) == "ready"  # no gateway was there to hear it
    liveness.listening(night + SECOND)
    services.sweep(night + 10 * SECOND)
    assert state(one) == "ready"  # it has had nine seconds to come back
    liveness.listening(night + 11 * SECOND)
    services.sweep(night + 12 * SECOND)
    assert state(one) == "suspect"
    liveness.listening(night + 21 * SECOND)
    liveness.listening(night + 31 * SECOND)
    assert services.sweep(night + 32 * SECOND) == (one.id,)


def test_an_emptied_valkey_makes_no_node_silent(node: Join) -> None:
    one = node()
    last = heard(one)
    liveness.saw(one.id, last + 100 * SECOND)
    services.sweep(last + 101 * SECOND)
    assert heard(one) == last + 100 * SECOND
    liveness.client().flushdb()
    services.sweep(last + 105 * SECOND)
    assert state(one) == "ready"


def test_a_drained_node_empties_and_takes_nothing(node: Join, cast: Cast, actor: ActorOf) -> None:
    one = node()
    services.assign_slots({"att-1": [(one.id, [0])]})
    services.drain(actor(cast.admin), one.id, "new memory")
    assert state(one) == "draining"
    assert services.assign_slots({"att-2": [(one.id, [1])]}) == set()
    services.sweep(heard(one) + SECOND)
    assert state(one) == "draining"
    services.release_slots({("att-1", one.id)})
    services.sweep(heard(one) + 2 * SECOND)
    assert state(one) == "drained"
    services.resume(actor(cast.admin), one.id)
    assert state(one) == "ready"
    told = Event.objects.filter(subject_id=one.id).order_by("id").values_list("kind", "actor", "cause")
    assert [kind for kind, _, _ in told] == [
        "NodeJoined",
        "NodeReady",
        "NodeDraining",
        "NodeDrained",
        "NodeReady",
    ]
    assert told[1][2] == "its agent has called for the first time"
    assert told[2] == ("NodeDraining", "user:root", "drained by root: new memory")


def test_a_node_that_was_away_remembers_that_it_is_to_be_drained(node: Join) -> None:
    one = node()
    last = heard(one)
    services.sweep(last + 31 * SECOND)
    services.drain(SYSTEM, one.id)
    assert state(one) == "lost"
    services.hello(one.id, description())
    assert state(one) == "draining"


def test_whoever_waits_for_room_hears_when_there_is_some(node: Join) -> None:
    told: list[str] = []

    def listener(node_id: str, **_: object) -> None:
        told.append(node_id)

    capacity_changed.connect(listener)
    try:
        one = node()
        services.drain(SYSTEM, one.id)
        assert told == [one.id]  # ready
        services.resume(SYSTEM, one.id)
        assert told == [one.id, one.id]
    finally:
        capacity_changed.disconnect(listener)


def test_draining_twice_is_one_event(node: Join) -> None:
    one = node()
    services.drain(SYSTEM, one.id)
    services.drain(SYSTEM, one.id)
    assert Event.objects.filter(kind="NodeDraining").count() == 1
