"""Whoever holds a credential or a bootstrap token and means no good: the attacks, over the real gateway."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from django.db import transaction
from django.test import Client

from platform_core.jobs.job import MemberPhase
from tests.webapp.conftest import BOOTSTRAP, credential_of
from tests.webapp.jobs.conftest import say, submit, tick
from tests.webapp.metrics.reading import rows
from tests.webapp.rpc.agents import (
    authorised,
    called,
    connected,
    end_of,
    heartbeat,
    hello,
    in_thread,
    itself,
    message,
    order,
    whole_gateway,
)
from trainmaster_wire.agent.v1 import (
    enrolment_pb2,
    enrolment_pb2_grpc,
    session_pb2,
    uplink_pb2,
    uplink_pb2_grpc,
)
from webapp.accounts.models import Team, User
from webapp.accounts.permissions import SYSTEM
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.jobs import services as jobs
from webapp.jobs.models import Attempt, Job, LogChunk, Member
from webapp.nodes import liveness
from webapp.nodes import services as clusters
from webapp.nodes.models import Node, Slot
from webapp.quotas.models import Quota

__all__ = ["submit"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("threads_that_leave")]
Talk = Callable[[grpc.aio.Channel], Any]


@pytest.fixture
def alone(node: Callable[..., Node], vision: Team, quota: Callable[..., Quota]) -> Node:
    quota(vision)
    return node("node-1")


@pytest.fixture
def credential(alone: Node) -> str:
    return credential_of(alone)


def over_grpc(talk: Talk) -> None:
    async def run() -> None:
        async with whole_gateway() as address, grpc.aio.insecure_channel(address) as channel:
            await talk(channel)

    asyncio.run(run())


def running(submit: Callable[..., Job]) -> tuple[Job, str]:
    """A job that runs, and its attempt."""
    job = submit(num_gpus=1)
    tick()
    say(job, MemberPhase.RUNNING)
    return job, str(Attempt.objects.get(job=job).id)


def lose(node: Node) -> None:
    """As the scheduler does once a gateway has listened for long enough and has not heard the node."""
    now = now_ms()
    liveness.listening(now)
    clusters.sweep(now, clock=lambda: now)
    liveness.listening(now + 1)
    for node_id in clusters.sweep(now, clock=lambda: now + 130_000):
        jobs.node_lost(node_id, now)


def takes_work(node: Node) -> bool:
    with transaction.atomic():
        return bool(clusters.assign_slots({"att-x": [(node.id, [0])]}))


def metrics(attempt: str, step: int, loss: float) -> uplink_pb2.Batch:
    line = f'{{"kind":"metrics","at_ms":1,"step":{step},"values":{{"loss":{loss}}}}}\n'.encode()
    return uplink_pb2.Batch(
        attempt_id=attempt, source=uplink_pb2.Batch.SPOOL, data=line, next_offset=len(line)
    )


def log_line(attempt: str, text: str) -> uplink_pb2.Batch:
    data = text.encode()
    return uplink_pb2.Batch(attempt_id=attempt, source=uplink_pb2.Batch.LOG, data=data, next_offset=len(data))


async def pushed(
    channel: grpc.aio.Channel, credential: str, *batches: uplink_pb2.Batch
) -> list[uplink_pb2.Ack]:
    call = uplink_pb2_grpc.UplinkStub(channel).Push(metadata=authorised(credential))
    acks = []
    for batch in batches:
        await call.write(batch)
        acks.append(await call.read())
    await call.done_writing()
    return acks


async def refusal_of(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as refusal:
        await call
    return refusal.value


def test_a_stray_connection_does_not_make_the_node_deaf(
    alone: Node, credential: str, submit: Callable[..., Job]
) -> None:
    async def talk(channel: grpc.aio.Channel) -> None:
        agent = await connected(channel, alone, credential)
        stray = called(channel, credential)
        await stray.wait_for_connection()
        stray.cancel()
        await in_thread(lambda: (submit(num_gpus=1), tick()))
        await order(agent, lambda state: len(state.attempts) == 1)

    over_grpc(talk)
    assert not Event.objects.filter(kind="SessionReplaced").exists()


def test_the_newest_session_that_says_hello_ends_the_older_one_and_the_audit_log_says_so(
    alone: Node, credential: str, submit: Callable[..., Job]
) -> None:
    async def talk(channel: grpc.aio.Channel) -> None:
        older = await connected(channel, alone, credential)
        newer = await connected(channel, alone, credential)
        assert await end_of(older) is grpc.StatusCode.ABORTED
        await in_thread(lambda: (submit(num_gpus=1), tick()))
        await order(newer, lambda state: len(state.attempts) == 1)

    over_grpc(talk)
    assert Event.objects.get(kind="SessionReplaced").subject_id == alone.id


def test_a_session_that_does_not_begin_with_hello_is_refused(alone: Node, credential: str) -> None:
    async def talk(channel: grpc.aio.Channel) -> None:
        call = called(channel, credential)
        await call.write(heartbeat(1))
        assert await end_of(call) is grpc.StatusCode.INVALID_ARGUMENT

    over_grpc(talk)


def test_an_agent_that_was_frozen_until_its_node_was_lost_begins_anew_and_learns_what_is_not_wanted(
    alone: Node, credential: str, submit: Callable[..., Job]
) -> None:
    job, attempt = running(submit)

    async def talk(channel: grpc.aio.Channel) -> None:
        frozen = await connected(channel, alone, credential, runs=[attempt])
        await order(frozen, lambda state: [each.attempt_id for each in state.attempts] == [attempt])
        await in_thread(lambda: lose(alone))
        assert await end_of(frozen) is grpc.StatusCode.ABORTED
        assert await in_thread(lambda: takes_work(alone)) is False
        again = await connected(channel, alone, credential, runs=[attempt])
        await order(again, lambda state: not state.attempts)

    over_grpc(talk)
    assert Job.objects.get(id=job.id).state == "pending"
    alone.refresh_from_db()
    assert alone.state == "ready"


def test_what_a_lost_attempt_still_sends_is_refused(
    alone: Node, credential: str, submit: Callable[..., Job]
) -> None:
    job, attempt = running(submit)
    lose(alone)

    async def talk(channel: grpc.aio.Channel) -> None:
        acks = await pushed(channel, credential, metrics(attempt, 5, 1.0), log_line(attempt, "late\n"))
        assert all("no longer" in ack.error for ack in acks)
        assert [ack.next_offset for ack in acks] == [len(metrics(attempt, 5, 1.0).data), 5]

    over_grpc(talk)
    assert rows(job.id, "loss") == []
    assert not LogChunk.objects.exists()


def test_history_is_closed_once_the_node_has_said_that_all_of_it_has_arrived(
    alone: Node, credential: str, submit: Callable[..., Job]
) -> None:
    job, attempt = running(submit)

    def ended(drained: bool) -> session_pb2.FromAgent:
        exited = session_pb2.AttemptObserved(
            attempt_id=attempt, phase=session_pb2.AttemptObserved.EXITED, uplink_drained=drained
        )
        return session_pb2.FromAgent(observed=session_pb2.Observed(attempts=[exited]))

    async def talk(channel: grpc.aio.Channel) -> None:
        agent = await connected(channel, alone, credential, runs=[attempt])
        await agent.write(ended(drained=False))
        assert [ack.error for ack in await pushed(channel, credential, metrics(attempt, 30, 1.5))] == [""]
        await agent.write(ended(drained=True))
        await order(agent, lambda state: not state.attempts)
        forged = (metrics(attempt, 30, -777.0), log_line(attempt, "forged after the end\n"))
        assert all(ack.error for ack in await pushed(channel, credential, *forged))

    over_grpc(talk)
    assert [value for _, value, _ in rows(job.id, "loss")] == [1.5]
    assert not LogChunk.objects.exists()


def test_a_revoked_node_brings_nothing_more_over_the_stream_that_it_has_open(
    alone: Node, credential: str, submit: Callable[..., Job]
) -> None:
    _, attempt = running(submit)

    async def talk(channel: grpc.aio.Channel) -> None:
        call = uplink_pb2_grpc.UplinkStub(channel).Push(metadata=authorised(credential))
        await call.write(log_line(attempt, "before\n"))
        assert (await call.read()).error == ""
        await in_thread(lambda: clusters.revoke(SYSTEM, alone.id))
        await call.write(log_line(attempt, "after the revocation\n"))
        assert await end_of(call) is grpc.StatusCode.UNAUTHENTICATED

    over_grpc(talk)
    assert [chunk.text for chunk in LogChunk.objects.all()] == ["before\n"]


def test_a_bootstrap_token_does_not_take_over_a_node_whose_agent_is_alive(
    alone: Node, credential: str
) -> None:
    async def talk(channel: grpc.aio.Channel) -> None:
        agent = await connected(channel, alone, credential)
        for description in (itself(alone), itself(alone, transfer_port=0)):
            request = enrolment_pb2.JoinRequest(bootstrap_token=BOOTSTRAP, node=description, node_id=alone.id)
            refusal = await refusal_of(enrolment_pb2_grpc.EnrolmentStub(channel).Join(request))
            assert refusal.code() is grpc.StatusCode.FAILED_PRECONDITION
        await agent.write(heartbeat(1))
        assert (await message(agent, "heartbeat_ack")).sequence == 1

    over_grpc(talk)


def test_a_join_of_many_megabytes_is_refused_unread(db: None) -> None:
    async def talk(channel: grpc.aio.Channel) -> None:
        stub = enrolment_pb2_grpc.EnrolmentStub(channel)
        for mebibytes, code in ((1, "OUT_OF_RANGE"), (60, "RESOURCE_EXHAUSTED")):
            request = enrolment_pb2.JoinRequest(bootstrap_token="x" * mebibytes * 2**20)
            assert (await refusal_of(stub.Join(request))).code().name == code

    over_grpc(talk)


def test_a_hello_with_a_hundred_thousand_slots_is_refused_with_the_limit(
    alone: Node, credential: str
) -> None:
    async def talk(channel: grpc.aio.Channel) -> None:
        call = called(channel, credential)
        await call.write(hello(alone, 100_000))
        assert await end_of(call) is grpc.StatusCode.INVALID_ARGUMENT
        assert "100,000 slots, and 1,024 is the limit" in await call.details()

    over_grpc(talk)
    assert Slot.objects.count() == 2


def test_numbers_that_are_none_do_not_break_the_pages_of_nodes(
    alone: Node, credential: str, admin: User, browser: Callable[[User], Client]
) -> None:
    odd = [
        session_pb2.SlotTelemetry(index=0, utilisation=float("nan"), temperature_celsius=float("inf")),
        session_pb2.SlotTelemetry(index=1, utilisation=1e30, ecc_corrected=2**64 - 1),
    ]

    async def talk(channel: grpc.aio.Channel) -> None:
        agent = await connected(channel, alone, credential)
        telemetry = session_pb2.Telemetry(disk_free_bytes=2**64 - 1, slots=odd)
        beat = session_pb2.Heartbeat(sequence=1, telemetry=telemetry)
        await agent.write(session_pb2.FromAgent(heartbeat=beat))
        await message(agent, "heartbeat_ack")

    over_grpc(talk)
    for page in ("/nodes/", f"/nodes/{alone.id}/", "/api/v1/nodes"):
        assert browser(admin).get(page).status_code == 200, page


def test_an_end_whose_reason_no_column_takes_is_an_end_nevertheless(
    alone: Node, credential: str, submit: Callable[..., Job]
) -> None:
    _, attempt = running(submit)
    exited = session_pb2.AttemptObserved(
        attempt_id=attempt, phase=session_pb2.AttemptObserved.EXITED, exit_code=1, uplink_drained=True,
        reason="\0" * 10 + "x" * 100_000,
    )  # fmt: skip

    async def talk(channel: grpc.aio.Channel) -> None:
        agent = await connected(channel, alone, credential, runs=[attempt])
        await agent.write(session_pb2.FromAgent(observed=session_pb2.Observed(attempts=[exited])))
        await order(agent, lambda state: attempt not in [each.attempt_id for each in state.attempts])

    over_grpc(talk)
    assert Member.objects.get(attempt=attempt).phase == "exited"
