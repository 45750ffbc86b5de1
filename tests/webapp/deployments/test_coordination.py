"""Several coordinators, one leads; what it decides is in the rows, so that the next one goes on where it stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
from django.db.models import F

from tests.support.replicas import another_process
from tests.webapp.deployments.conftest import SIZE
from tests.webapp.orders import wanted_on
from trainmaster_wire.agent.v1 import session_pb2
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.base import lease
from webapp.deployments import coordination, queries, services
from webapp.deployments.delivery import pacing, seating
from webapp.deployments.models import Deployment, Worker
from webapp.events.queries import story
from webapp.nodes.models import Node
from webapp.registry.models import ModelVersion
from webapp.rpc.observed import Report, observe

MIB = 1 << 20


def says(
    deployment: Deployment, worker: Worker, done: int, state: str = "RECEIVING", looked: bool = True,
    distrusted: Sequence[str] = (), held: Sequence[int] = (),
) -> None:  # fmt: skip
    """What an agent tells whenever something changes, and all of it again with each new session."""
    told = session_pb2.DeploymentObserved(
        deployment_id=deployment.id, state=session_pb2.DeploymentObserved.State.Value(state), bytes_done=done,
        bytes_total=SIZE, source="store", held=held or [done // 4] * 4 if looked else [], distrusted=distrusted,
    )  # fmt: skip
    observe([Report(worker.node_id, session_pb2.Observed(deployments=[told]), complete=True)])


def four_seconds_pass(deployment: Deployment) -> None:
    row = Deployment.objects.get(id=deployment.id)
    row.pacing["at_ms"] -= pacing.MEASURE_MS
    for seen in row.pacing["seen"].values():
        seen[0] -= pacing.MEASURE_MS
    row.save()


@pytest.fixture
def twelve(node: Callable[..., Node]) -> list[Node]:
    return [node(f"node-{index:02}", rack=f"rack-{index % 2}") for index in range(12)]


@pytest.fixture
def wide(version: ModelVersion, owner: User, twelve: list[Node]) -> Deployment:
    return services.create(actor_of(owner), "vision/bytelm", 1)


def feeding(deployment: Deployment) -> Worker:
    """Somebody who feeds others and pulls nothing itself."""
    workers = queries.workers(deployment.id)
    parents = {lane[0] for worker in workers for lane in worker.lanes}
    return next(w for w in workers if w.node_id in parents and all(lane[0] for lane in w.lanes))


def one_window(deployment: Deployment, lame: Worker, number: int, percent: int) -> None:
    four_seconds_pass(deployment)
    for worker in queries.workers(deployment.id):
        slow = worker.node_id == lame.node_id
        done = number * MIB * (percent if slow else 100) // 100
        says(deployment, worker, done)
    coordination.coordinate()


def test_a_slow_link_goes_below_the_others_and_they_stop_waiting_for_it(wide: Deployment) -> None:
    lame = feeding(wide)
    coordination.coordinate()
    for number in range(4):
        one_window(wide, lame, number, 10)
    workers = {worker.node_id: worker for worker in queries.workers(wide.id)}
    assert workers[lame.node_id].pace == 10
    assert not any(lane[0] == lame.node_id for worker in workers.values() for lane in worker.lanes)
    (wanted,) = wanted_on(lame.node_id)
    assert wanted.slower == {number for number, lane in enumerate(wanted.lanes) if lane[0]}
    told = [event for event in story(f"deployment:{wide.id}") if event.kind == "WorkerSlow"]
    assert [event.cause.partition(" takes ")[2][:4] for event in told] == ["10 %"]


def test_one_that_sends_a_tenth_feeds_nobody_and_the_story_says_so(wide: Deployment) -> None:
    lame = feeding(wide)
    coordination.coordinate()
    lanes_of = {worker.node_id: [lane[0] for lane in worker.lanes] for worker in queries.workers(wide.id)}
    for number in range(4):
        four_seconds_pass(wide)
        quarter = number * MIB // 4
        for worker in queries.workers(wide.id):
            late = [source == lame.node_id for source in lanes_of[worker.node_id]]
            # More than a tenth and less than two: seconds between words are counted by a real clock.
            says(wide, worker, 0, held=[quarter * 3 // 20 if each else quarter for each in late])
        coordination.coordinate()
    assert not any(lame.node_id == lane[0] for worker in queries.workers(wide.id) for lane in worker.lanes)
    row = Worker.objects.get(deployment=wide, node=lame.node_id)
    assert (row.pace, row.sends) == (100, 10)
    (told,) = [event for event in story(f"deployment:{wide.id}") if event.kind == "WorkerSendsSlowly"]
    assert told.cause.startswith(f"{lame.node.hostname} sends 10 % of what the others do")


def test_one_bad_window_changes_no_plan(wide: Deployment) -> None:
    lame = feeding(wide)
    before = {worker.node_id: worker.lanes for worker in queries.workers(wide.id)}
    coordination.coordinate()
    for number, percent in enumerate((100, 10, 100, 100)):
        one_window(wide, lame, number, percent)
    assert {worker.node_id: worker.lanes for worker in queries.workers(wide.id)} == before


def test_a_worker_that_falls_silent_leaves_the_mesh_and_its_next_word_brings_it_back(
    wide: Deployment,
) -> None:
    quiet = feeding(wide)
    for worker in queries.workers(wide.id):
        says(wide, worker, MIB)
    Worker.objects.filter(id=quiet.id).update(seen_ms=F("seen_ms") - seating.SILENT_MS - 1)
    Deployment.objects.filter(id=wide.id).update(created_ms=0)
    coordination.coordinate()
    assert not any(quiet.node_id in lane for w in queries.workers(wide.id) if w.seated for lane in w.lanes)
    assert Worker.objects.get(id=quiet.id).state == "receiving", "it has not failed"
    says(wide, quiet, 2 * MIB)
    coordination.coordinate()
    assert Worker.objects.get(id=quiet.id).seated


def told_of_a_new_beginning(deployment: Deployment) -> list[str]:
    return [line.cause for line in story(f"deployment:{deployment.id}") if line.kind == "WorkerBeganAnew"]


def test_a_worker_that_is_back_at_once_with_nothing_is_not_waited_for_by_those_it_fed(
    wide: Deployment,
) -> None:
    """It was away for less than the silence, so nobody has missed it."""
    emptied = feeding(wide)
    for worker in queries.workers(wide.id):
        says(wide, worker, MIB)
    before = {worker.node_id: worker.lanes for worker in queries.workers(wide.id)}
    says(wide, emptied, MIB - MIB // 8)
    coordination.coordinate()
    assert {worker.node_id: worker.lanes for worker in queries.workers(wide.id)} == before, "a piece or two"
    says(wide, emptied, 0, "IDLE", looked=False)
    says(wide, emptied, 0)
    coordination.coordinate()
    after = {worker.node_id: worker for worker in queries.workers(wide.id)}
    assert all(worker.seated for worker in after.values())
    fed = {
        (name, at)
        for name, lanes in before.items()
        for at, lane in enumerate(lanes)
        if lane[0] == emptied.node_id
    }
    assert fed
    assert all(after[name].lanes[at][0] != emptied.node_id for name, at in fed)
    assert after[emptied.node_id].lanes != before[emptied.node_id]
    name = emptied.node.hostname
    assert told_of_a_new_beginning(wide) == [
        f"{name} has lost most of what it held, and begins anew below the others"
    ]


def test_one_whose_bytes_were_damaged_feeds_nobody_who_waits_for_it_and_is_moved_once(
    wide: Deployment,
) -> None:
    sender = feeding(wide)
    for worker in queries.workers(wide.id):
        says(wide, worker, MIB)
    fed = [
        worker for worker in queries.workers(wide.id) if sender.node_id in [lane[0] for lane in worker.lanes]
    ]
    for worker in fed:
        says(wide, worker, MIB, distrusted=[sender.node_id])
    coordination.coordinate()
    after = queries.workers(wide.id)
    assert len(fed) > 1
    assert not any(sender.node_id in [lane[0] for lane in worker.lanes] for worker in after)
    assert Worker.objects.get(deployment=wide, node=sender.node_id).seated
    name = sender.node.hostname
    assert told_of_a_new_beginning(wide) == [f"{name} is not believed, and begins anew below the others"]


def test_a_worker_that_has_failed_has_not_begun_anew(wide: Deployment) -> None:
    """It holds nothing any more, and leaves."""
    failed = feeding(wide)
    for worker in queries.workers(wide.id):
        says(wide, worker, MIB)
    says(wide, failed, 0, "FAILED")
    coordination.coordinate()
    after = queries.workers(wide.id)
    assert all(failed.node_id not in (name for lane in worker.lanes for name in lane) for worker in after)
    assert told_of_a_new_beginning(wide) == []


def test_a_platform_that_was_deaf_takes_nobody_out_of_the_mesh(wide: Deployment) -> None:
    for worker in queries.workers(wide.id):
        says(wide, worker, MIB)
    Worker.objects.update(seen_ms=1)
    Deployment.objects.filter(id=wide.id).update(created_ms=0)
    coordination.coordinate()
    assert all(worker.seated for worker in queries.workers(wide.id))


def test_another_coordinator_judges_on_from_what_the_first_had_seen(wide: Deployment) -> None:
    """The windows are rows too: a leader that dies between the first and the second loses nothing."""
    lame = feeding(wide)
    coordination.coordinate()
    for number in range(2):
        one_window(wide, lame, number, 10)
    adopting = lease.acquire("deployments", "another-machine:1")
    assert adopting is not None
    four_seconds_pass(wide)
    for worker in queries.workers(wide.id):
        slow = worker.node_id == lame.node_id
        says(wide, worker, 200_000 if slow else 2 * MIB)
    coordination.look_after(wide.id, adopting)
    assert Worker.objects.get(id=lame.id).pace == 10


def test_an_old_leader_changes_nothing(deployment: Deployment) -> None:
    *_, last = queries.workers(deployment.id)
    Node.objects.filter(id=last.node_id).update(state="lost")
    old = lease.acquire("deployments", "this-machine:1")
    assert old is not None
    lease.release(old)
    assert lease.acquire("deployments", "another-machine:1") is not None
    with pytest.raises(lease.LostLease):
        coordination.look_after(deployment.id, old)
    assert Worker.objects.get(id=last.id).state == "idle"


def test_while_one_leads_another_does_nothing(deployment: Deployment) -> None:
    assert lease.acquire("deployments", "another-machine:1") is not None
    assert coordination.coordinate() is False


def test_what_nodes_hold_is_rebuilt_from_what_their_agents_say(deployment: Deployment) -> None:
    """A database restored from before the deployment moved: the agents' new sessions tell where it is."""
    workers = queries.workers(deployment.id)
    for worker in workers[1:]:
        says(deployment, worker, SIZE, state="COMPLETE")
    says(deployment, workers[0], 7 * MIB)
    Worker.objects.filter(deployment=deployment).update(state="idle", bytes_done=0, held=[])
    Deployment.objects.filter(id=deployment.id).update(state="init", started_ms=None)
    for worker in workers[1:]:
        says(deployment, worker, SIZE, state="COMPLETE")
    says(deployment, workers[0], 7 * MIB)
    row = queries.find(deployment.id)
    assert row is not None
    assert row.state == "distributing"
    assert queries.progress_of(row).bytes_done == 3 * SIZE + 7 * MIB


STUCK = """
import django, signal
django.setup()
from webapp.deployments import coordination, services
from webapp.deployments.delivery import pacing, seating
reseat = seating.reseat
def stuck(*arguments):
    reseat(*arguments)
    print("in the middle", flush=True)
    signal.pause()
services.seating.reseat = stuck
coordination.coordinate()
"""


@pytest.mark.django_db(transaction=True)
def test_a_leader_killed_in_the_middle_is_replaced_and_nothing_of_its_half_remains(
    deployment: Deployment,
) -> None:
    *_, last = queries.workers(deployment.id)
    Node.objects.filter(id=last.node_id).update(state="lost")
    with another_process("-c", STUCK) as leader:
        assert leader.stdout is not None
        assert leader.stdout.readline() == "in the middle\n"
        leader.kill()
        leader.wait()
        tried = threading.Event()
        for _ in range(100):
            if coordination.coordinate():
                break
            assert Worker.objects.get(id=last.id).state == "idle", "what was not committed did not happen"
            tried.wait(0.1)
    assert Worker.objects.get(id=last.id).state == "failed"
    assert not any(
        last.node_id in lane for w in queries.workers(deployment.id) if w.seated for lane in w.lanes
    )
