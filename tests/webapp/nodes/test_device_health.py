"""Device health with consequences: slots and nodes out of service, and back by an operator."""

from collections.abc import Callable, Mapping

import pytest

from platform_core.cluster.device_health import BY_CODE
from platform_core.errors import TrainmasterError
from platform_core.node.description import SlotTelemetry, Telemetry
from platform_core.units import HOUR_MS, SECOND_MS
from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.accounts.permissions import SYSTEM, Actor
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.nodes import liveness, queries, services
from webapp.nodes.models import DeviceFinding, Node

Join = Callable[..., Node]
ActorOf = Callable[[User], Actor]


def beats(node: Node, of_node: Mapping[str, float] | None = None, **slots: Mapping[str, float]) -> None:
    """A heartbeat with these readings: beats(node, slot1={"xid_79": 1})."""
    readings = {int(name.removeprefix("slot")): values for name, values in slots.items()}
    telemetry = Telemetry(
        10**12,
        0,
        tuple(SlotTelemetry(index, readings=readings.get(index, {})) for index in range(2)),
        of_node or {},
    )
    liveness.heard(node.id, telemetry, now_ms())


def judge(at_ms: int, failed: Mapping[str, int] | None = None) -> list[tuple[str, tuple[int, ...]]]:
    readings = {node: {"failed_jobs": float(count)} for node, count in (failed or {}).items()}
    return [(leave.node_id, leave.slots) for leave in services.judge_devices(at_ms, readings)]


def free(node: Node) -> tuple[int, ...]:
    (view,) = (view for view in queries.snapshot_nodes() if view.id == node.id)
    return view.free_slots if view.takes_work else ()


def kinds(node: Node) -> list[str]:
    events = Event.objects.filter(subject_id=node.id, kind__startswith="Device").order_by("id")
    return list(events.values_list("kind", flat=True))


def test_a_slot_alone_goes_out_of_service_when_its_gpu_fails(node: Join) -> None:
    one = node()
    assert free(one) == (0, 1)
    beats(one, slot1={"xid_79": 1.0})
    assert judge(1_000) == []
    assert free(one) == (0,)
    assert services.assign_slots({"att-1": [(one.id, [1])]}) == frozenset()
    assert queries.slots([one.id])[one.id][1].out_of_service == "XID 79: a GPU that fell off the bus"
    assert queries.capacity()["cpu"].free == 1
    fault = Event.objects.get(kind="DeviceFault")
    assert fault.cause == "slot 1: XID 79: a GPU that fell off the bus"


def test_jobs_on_a_slot_that_is_out_of_service_are_to_leave_and_the_others_stay(node: Join) -> None:
    one = node()
    services.assign_slots({"att-1": [(one.id, [0])], "att-2": [(one.id, [1])]})
    beats(one, slot1={"ecc_uncorrected_hour": 2.0})
    assert judge(1_000) == [(one.id, (1,))]
    assert judge(2_000) == [(one.id, (1,))], "until nothing runs there any more"
    services.release_slots([("att-2", one.id)])
    assert judge(3_000) == []


def test_a_fault_of_the_node_takes_out_all_of_it(node: Join) -> None:
    one = node()
    services.assign_slots({"att-1": [(one.id, [0])]})
    beats(one, {"disk_read_only": 1.0})
    assert judge(1_000) == [(one.id, ())]
    assert free(one) == ()
    assert services.assign_slots({"att-2": [(one.id, [1])]}) == frozenset()


def test_what_only_keeps_new_jobs_away_moves_nobody_and_is_over_by_itself(node: Join) -> None:
    rule, one = BY_CODE["throttled_hot"], node()
    services.assign_slots({"att-1": [(one.id, [0])]})
    beats(one, slot0={"throttle_thermal": 1.0})
    assert judge(0) == []
    assert (free(one), kinds(one)) == ((1,), []), "the slot is in use, and nothing is wrong for long yet"
    services.release_slots([("att-1", one.id)])
    assert free(one) == (0, 1)
    judge(rule.for_ms)
    assert (free(one), kinds(one)) == ((1,), ["DeviceFault"])
    beats(one)
    judge(rule.for_ms + SECOND_MS)
    judge(rule.for_ms + rule.clear_ms)
    assert free(one) == (1,)
    judge(rule.for_ms + SECOND_MS + rule.clear_ms)
    assert (free(one), kinds(one)) == ((0, 1), ["DeviceFault", "DeviceRecovered"])
    assert DeviceFinding.objects.get().closed_ms is not None


def test_a_reading_that_comes_and_goes_leaves_no_trace(node: Join) -> None:
    one = node()
    for moment in range(0, 60_000, 2_000):
        beats(one, slot0={"throttle_thermal": float(moment % 4_000 == 0)})
        judge(moment)
    assert not DeviceFinding.objects.filter(stage="active").exists()
    assert kinds(one) == []


def test_an_operator_returns_a_slot_and_only_something_new_takes_it_out_again(
    node: Join, cast: Cast, actor: ActorOf
) -> None:
    one = node()
    beats(one, slot0={"ecc_uncorrected_hour": 2.0}, slot1={"xid_79": 1.0})
    judge(1_000)
    assert free(one) == ()
    services.return_to_service(actor(cast.admin), one.id, 0)
    assert free(one) == (0,)
    judge(now_ms())
    assert free(one) == (0,)
    beats(one, slot0={"ecc_uncorrected_hour": 3.0}, slot1={"xid_79": 1.0})
    judge(now_ms() + 1)
    judge(now_ms() + 2)
    assert free(one) == ()
    assert kinds(one) == ["DeviceFault", "DeviceFault", "DeviceReturned", "DeviceFault"]


def test_resuming_a_node_returns_all_of_it(node: Join, cast: Cast, actor: ActorOf) -> None:
    one = node()
    beats(one, {"disk_read_only": 1.0}, slot1={"xid_79": 1.0})
    judge(1_000)
    services.resume(actor(cast.admin), one.id)
    assert free(one) == (0, 1)
    returned = Event.objects.get(kind="DeviceReturned")
    assert returned.actor == "user:root"
    assert "XID 79" in returned.cause


def test_there_is_nothing_to_return_where_nothing_is_out(node: Join, cast: Cast, actor: ActorOf) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        services.return_to_service(actor(cast.admin), node().id, 1)
    assert refusal.value.sentence.endswith("slot 1 of node-1 is not out of service")


@pytest.mark.parametrize("who", ["owner", "lead", "outsider"])
def test_nobody_but_an_admin_returns_a_node(who: str, node: Join, cast: Cast, actor: ActorOf) -> None:
    with pytest.raises(TrainmasterError) as refusal:
        services.return_to_service(actor(getattr(cast, who)), node().id)
    assert refusal.value.code == "not_allowed"


def test_a_node_that_fails_several_jobs_is_suspected_for_all(node: Join) -> None:
    one = node()
    beats(one)
    judge(1_000, {one.id: 2})
    assert free(one) == (0, 1)
    judge(2_000, {one.id: 3})
    assert free(one) == ()
    assert Event.objects.get(kind="DeviceFault").cause.startswith("3 different jobs failed on it within 6 h")


def test_when_all_nodes_fail_jobs_the_cluster_is_not_taken_out_of_service(node: Join) -> None:
    nodes = [node(f"node-{number}") for number in range(12)]
    for one in nodes:
        beats(one)
    for moment in (1_000, 2_000, 3_000):
        judge(moment, {one.id: 5 for one in nodes})
    assert sum(free(one) == () for one in nodes) == 1


def test_a_node_that_is_silent_is_judged_by_its_silence_alone(node: Join) -> None:
    one = node()
    beats(one, slot1={"gpu_lost": 1.0})
    judge(1_000)
    liveness.client().delete(f"cluster:telemetry:{one.id}")
    judge(HOUR_MS)
    assert free(one) == (0, 1)


def test_readings_that_no_rule_knows_do_no_harm(node: Join) -> None:
    one = node()
    beats(one, {"something": 9.0}, slot0={"xid_13": 5.0})
    judge(1_000)
    assert free(one) == (0, 1)
    services.drain(SYSTEM, one.id)
