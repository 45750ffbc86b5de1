import asyncio
from collections.abc import Callable

import pytest
from django.conf import LazySettings

from platform_core.node.description import SlotTelemetry, Telemetry
from tests.webapp.conftest import Cast, description
from webapp.accounts.models import User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.events.models import Event
from webapp.nodes import liveness, queries, services, silence
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


def swept(at_ms: int) -> tuple[str, ...]:
    """By a machine whose clock since boot says so."""
    return services.sweep(at_ms, clock=lambda: at_ms)


@pytest.fixture
def node(node: Join) -> Join:
    """One that a sweep has seen at the moment when it was last heard."""

    def make(*args: object, **fields: object) -> Node:
        one = node(*args, **fields)
        swept(heard(one))
        return one

    return make


def test_a_silent_node_is_suspect_after_ten_seconds_and_lost_after_two_minutes(node: Join) -> None:
    one = node()
    last = heard(one)
    assert swept(last + 9 * SECOND) == ()
    assert state(one) == "ready"
    assert swept(last + 10 * SECOND) == ()
    assert state(one) == "suspect"
    assert swept(last + 119 * SECOND) == ()
    assert swept(last + 120 * SECOND) == (one.id,)
    assert state(one) == "lost"
    assert swept(last + 150 * SECOND) == ()
    event = Event.objects.get(kind="NodeLost")
    assert event.cause == "no heartbeat for 2 min, the limit is 2 min"
    assert event.data["name"] == "node-1"
    assert not event.data["drain_requested"]


def test_one_that_is_switched_off_after_it_was_told_to_drain_is_lost_as_such(node: Join) -> None:
    one = node()
    services.drain(SYSTEM, one.id)
    swept(heard(one) + 121 * SECOND)
    assert state(one) == "lost"
    assert Event.objects.get(kind="NodeLost").data["drain_requested"]


def test_a_lost_node_that_still_holds_slots_is_named_until_it_was_dealt_with(node: Join) -> None:
    one = node()
    services.assign_slots({"att-1": [(one.id, [0])]})
    last = heard(one)
    assert swept(last + 121 * SECOND) == (one.id,)
    assert swept(last + 123 * SECOND) == (one.id,)
    services.release_slots({("att-1", one.id)})
    assert swept(last + 125 * SECOND) == ()


def test_a_suspect_node_that_is_heard_again_is_ready_again(node: Join) -> None:
    one = node()
    last = heard(one)
    swept(last + 11 * SECOND)
    liveness.saw(one.id, last + 20 * SECOND)
    swept(last + 21 * SECOND)
    assert state(one) == "ready"


def test_a_lost_node_takes_nothing_until_it_has_said_hello_again(node: Join) -> None:
    one = node()
    last = heard(one)
    swept(last + 121 * SECOND)
    liveness.saw(one.id, last + 130 * SECOND)
    swept(last + 131 * SECOND)
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
    swept(last)
    night = last + 3_600 * SECOND
    swept(night)
    assert state(one) == "ready"  # no gateway was there to hear it
    liveness.listening(night + SECOND)
    swept(night + SECOND)
    swept(night + 10 * SECOND)
    assert state(one) == "ready"  # it has had nine seconds to come back
    liveness.listening(night + 11 * SECOND)
    swept(night + 12 * SECOND)
    assert state(one) == "suspect"
    for second in range(21, 121, 10):
        liveness.listening(night + second * SECOND)
        assert swept(night + second * SECOND) == ()
    assert swept(night + 122 * SECOND) == (one.id,)


def test_clocks_that_are_set_lose_no_node_and_keep_none(node: Join) -> None:
    """The moments that gateways record are for people; silence is counted by one clock since its boot."""
    one = node()
    boot = heard(one)
    for wall in (boot - 10**9, boot + 10**9):
        liveness.saw(one.id, wall)
        services.sweep(wall, clock=lambda: boot + SECOND)
        assert state(one) == "ready"
    services.sweep(boot - 10**9, clock=lambda: boot + 122 * SECOND)
    assert state(one) == "lost"


def test_a_sweep_that_was_frozen_loses_no_node_by_what_it_read_before(node: Join) -> None:
    one = node()
    last = heard(one)
    moments = iter([last + SECOND, last + 500 * SECOND])  # before it read, and after
    services.sweep(last, clock=lambda: next(moments))
    assert state(one) == "ready"


def test_silence_that_only_another_machine_has_seen_does_not_count(
    node: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = node()
    last = heard(one)
    monkeypatch.setattr(silence, "_boot_id", lambda: "booted just now")
    services.sweep(last, clock=lambda: last + 500 * SECOND)
    assert state(one) == "ready"


def test_a_shorter_limit_does_not_shorten_the_leases_that_were_granted_before(
    node: Join, settings: LazySettings
) -> None:
    one = node()
    last = heard(one)
    settings.LOST_AFTER_SECONDS = 30
    assert swept(last + 31 * SECOND) == ()
    liveness.saw(one.id, last + 32 * SECOND)  # its acknowledgement may not have arrived
    assert swept(last + 32 * SECOND) == ()
    assert swept(last + 70 * SECOND) == ()
    assert swept(last + 121 * SECOND) == (one.id,)


def test_one_that_was_never_seen_alive_is_not_taken_for_heard_again(node: Join) -> None:
    one = node()
    Node.objects.filter(id=one.id).update(state="suspect")
    liveness.client().delete(*liveness.client().keys("cluster:sightings:*"))
    swept(heard(one))
    assert state(one) == "suspect"


def test_an_emptied_valkey_makes_no_node_silent(node: Join) -> None:
    one = node()
    last = heard(one)
    liveness.saw(one.id, last + 100 * SECOND)
    swept(last + 101 * SECOND)
    assert heard(one) == last + 100 * SECOND
    liveness.client().flushdb()
    swept(last + 105 * SECOND)
    assert state(one) == "ready"


def test_a_drained_node_empties_and_takes_nothing(node: Join, cast: Cast, actor: ActorOf) -> None:
    one = node()
    services.assign_slots({"att-1": [(one.id, [0])]})
    services.drain(actor(cast.admin), one.id, "new memory")
    assert state(one) == "draining"
    assert services.assign_slots({"att-2": [(one.id, [1])]}) == set()
    swept(heard(one) + SECOND)
    assert state(one) == "draining"
    services.release_slots({("att-1", one.id)})
    swept(heard(one) + 2 * SECOND)
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
    swept(last + 121 * SECOND)
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
