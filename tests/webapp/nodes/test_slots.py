import threading
from collections.abc import Callable

import pytest
import redis
from django.conf import settings
from django.db import connection, transaction

from platform_core.errors import TrainmasterError
from webapp.nodes import queries, services
from webapp.nodes.models import Node, Slot

Join = Callable[..., Node]


def held(node: Node) -> dict[int, str | None]:
    return dict(Slot.objects.filter(node=node).order_by("index").values_list("index", "attempt_id"))


def test_an_attempt_gets_all_the_slots_or_the_plan_was_stale(node: Join) -> None:
    one = node(slots=4)
    services.assign_slots({"att-1": [(one.id, [0, 1])]})
    assert services.assign_slots({"att-2": [(one.id, [1, 2])]}) == set()
    assert held(one) == {0: "att-1", 1: "att-1", 2: None, 3: None}


def test_slots_that_do_not_exist_are_not_given(node: Join) -> None:
    assert services.assign_slots({"att-1": [(node(slots=1).id, [0, 7])]}) == set()


def test_of_many_attempts_each_gets_all_its_slots_or_none(node: Join) -> None:
    one, two = node("node-1", slots=2), node("node-2", slots=2)
    wanted = {
        "att-1": [(one.id, [0, 1]), (two.id, [0])],
        "att-2": [(two.id, [0, 1])],  # one of them is the first's
        "att-3": [(two.id, [1])],
    }
    assert services.assign_slots(wanted) == {"att-1", "att-3"}
    assert (held(one), held(two)) == ({0: "att-1", 1: "att-1"}, {0: "att-1", 1: "att-3"})


def test_released_slots_are_free_for_the_next(node: Join) -> None:
    one, two = node("node-1"), node("node-2")
    for each in (one, two):
        services.assign_slots({"att-1": [(each.id, [0, 1])]})
    assert services.release_slots({("att-1", one.id)}) == 2
    assert services.release_slots({("att-1", one.id)}) == 0
    assert (held(one), held(two)) == ({0: None, 1: None}, {0: "att-1", 1: "att-1"})
    assert services.release_slots({("att-1", two.id)}) == 2
    services.assign_slots({"att-2": [(two.id, [0])]})


def test_of_two_schedulers_at_once_one_gets_the_slot(node: Join, transactional_db: None) -> None:
    one = node(slots=1)
    taken, outcome = threading.Event(), []

    def second() -> None:
        taken.wait(10)
        try:
            with transaction.atomic():
                outcome.append(services.assign_slots({"att-2": [(one.id, [0])]}))
        finally:
            connection.close()

    thread = threading.Thread(target=second)
    thread.start()
    with transaction.atomic():
        services.assign_slots({"att-1": [(one.id, [0])]})
        taken.set()
        thread.join(0.3)  # the other one waits for the row
        assert thread.is_alive()
    thread.join(10)
    assert outcome == [set()]
    assert held(one) == {0: "att-1"}


def test_touched_nodes_have_a_new_revision_and_their_gateway_is_told(
    node: Join, django_capture_on_commit_callbacks: Callable[..., object]
) -> None:
    one, two, untouched = node("node-1"), node("node-2"), node("node-3")
    before = queries.revisions([one.id, two.id, untouched.id])
    listener = redis.Redis.from_url(settings.REDIS_URL).pubsub(ignore_subscribe_messages=True)
    listener.psubscribe("wanted:*")
    listener.get_message(timeout=5)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        services.touch([two.id, one.id, two.id])
        services.touch([])
    after = queries.revisions([one.id, two.id, untouched.id])
    assert after[one.id][0] == before[one.id][0] + 1
    assert after[two.id][0] == before[two.id][0] + 1
    assert after[untouched.id] == before[untouched.id]
    told = {listener.get_message(timeout=5)["channel"].decode() for _ in range(2)}
    assert told == {f"wanted:{one.id}", f"wanted:{two.id}"}
    listener.close()


def test_the_scheduler_sees_every_node_in_three_queries(
    node: Join, django_assert_num_queries: Callable[[int], object]
) -> None:
    one = node("node-1", slots=4, rack="rack-7")
    for index in range(2, 8):
        node(f"node-{index}")
    services.assign_slots({"att-1": [(one.id, [0, 2])]})
    with django_assert_num_queries(3):  # type: ignore[attr-defined]
        views = {view.hostname: view for view in queries.snapshot_nodes()}
    assert (views["node-1"].slots, views["node-1"].free_slots, views["node-1"].rack) == (4, (1, 3), "rack-7")
    assert views["node-1"].takes_work
    assert len(views) == 7


def test_capacity_counts_what_is_there_and_what_is_free(node: Join) -> None:
    one = node("node-1", slots=4)
    node("node-2", slots=8, gpu_type="h100")
    services.assign_slots({"att-1": [(one.id, [0])]})
    found = queries.capacity()
    assert (found["cpu"].slots, found["cpu"].free, found["h100"].free) == (4, 3, 8)


def test_nodes_are_found_by_id_and_by_hostname(node: Join) -> None:
    one, two = node("node-1", rack="rack-1"), node("node-2", rack="rack-2")
    assert [place.node for place in queries.places(["node-2", one.id, two.id])] == [two.id, one.id]
    assert {place.node for place in queries.places([])} == {one.id, two.id}
    with pytest.raises(TrainmasterError) as refusal:
        queries.places(["node-1", "node-9"])
    assert (refusal.value.code, refusal.value.numbers["node"]) == ("node_unknown", "node-9")


def test_two_nodes_of_one_hostname_are_told_apart_only_by_id(node: Join) -> None:
    one = node("twin")
    node("twin")
    with pytest.raises(TrainmasterError):
        queries.places(["twin"])
    assert queries.places([one.id])[0].node == one.id
