"""Any message of any kind, at the real gateway: it may be refused, but never breaks a call or the session after it."""

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as some

from platform_core.jobs.job import MemberPhase
from tests.webapp.conftest import BOOTSTRAP, credential_of
from tests.webapp.deployments.conftest import *  # noqa: F403  a model on its way to four nodes
from tests.webapp.jobs.conftest import say, submit, tick
from tests.webapp.rpc.agents import authorised, called, connected, end_of, heartbeat, message, whole_gateway
from trainmaster_wire.agent.v1 import (
    enrolment_pb2,
    enrolment_pb2_grpc,
    session_pb2,
    uplink_pb2,
    uplink_pb2_grpc,
)
from webapp.accounts.models import Team
from webapp.deployments.models import Deployment
from webapp.jobs.models import Attempt, Job
from webapp.nodes.models import Node
from webapp.quotas.models import Quota

__all__ = ["submit"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("threads_that_leave")]
BROKEN = (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN)
FEW = settings(
    max_examples=12, deadline=None, derandomize=True, phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip

_NUMBERS: dict[int, some.SearchStrategy[Any]] = {
    FieldDescriptor.TYPE_INT32: some.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]),
    FieldDescriptor.TYPE_SINT32: some.sampled_from([0, 1, -1, 2**31 - 1, -(2**31)]),
    FieldDescriptor.TYPE_INT64: some.sampled_from([0, 1, -1, 2**63 - 1, -(2**63)]),
    FieldDescriptor.TYPE_UINT32: some.sampled_from([0, 1, 2, 65_536, 2**32 - 1]),
    FieldDescriptor.TYPE_UINT64: some.sampled_from([0, 1, 2, 2**63, 2**64 - 1]),
    FieldDescriptor.TYPE_FLOAT: some.floats(width=32),
    FieldDescriptor.TYPE_DOUBLE: some.floats(),
    FieldDescriptor.TYPE_BOOL: some.booleans(),
    FieldDescriptor.TYPE_ENUM: some.sampled_from([0, 1, 2, 3, 4, 17]),
}


def arbitrary(kind: Any, names: list[str]) -> some.SearchStrategy[Any]:
    """Any message of this kind; its texts are sometimes names of things that there are."""
    texts = some.sampled_from(
        [*names, "", "\0", "a\0b", "\x1b[2J", "x" * 5_000, "[" * 3_000, "{}"]
    ) | some.text(some.characters(exclude_categories=["Cs"]), max_size=5)

    def value(field: FieldDescriptor) -> some.SearchStrategy[Any]:
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            return built(field.message_type)
        if field.type == FieldDescriptor.TYPE_STRING:
            return texts
        if field.type == FieldDescriptor.TYPE_BYTES:
            return some.binary(max_size=40) | texts.map(str.encode)
        return _NUMBERS[field.type]

    def built(descriptor: Any) -> some.SearchStrategy[dict[str, Any]]:
        fields = {}
        for field in descriptor.fields:
            if field.message_type is not None and field.message_type.GetOptions().map_entry:
                values = value(field.message_type.fields_by_name["value"])
                fields[field.name] = some.dictionaries(texts, values, max_size=2)
            elif field.is_repeated:
                fields[field.name] = some.lists(value(field), max_size=3)
            elif descriptor.oneofs and field.containing_oneof and not field.has_presence:
                continue
            else:
                fields[field.name] = value(field)
        return some.fixed_dictionaries({}, optional=fields)

    return built(kind.DESCRIPTOR).map(lambda fields: kind(**fields))


@pytest.fixture
def world(
    deployment: Deployment,
    nodes: list[Node],
    vision: Team,
    quota: Callable[..., Quota],
    submit: Callable[..., Job],
) -> dict[str, Any]:
    """A node with a running attempt and a deployment that comes to it."""
    quota(vision)
    job = submit(num_gpus=8)
    tick()
    say(job, MemberPhase.RUNNING)
    attempt = Attempt.objects.get(job=job).id
    node = nodes[0]
    return {
        "node": node,
        "credential": credential_of(node),
        "names": [attempt, deployment.id, "vision/bytelm", node.hostname],
    }


async def goes_on(channel: grpc.aio.Channel, world: dict[str, Any]) -> None:
    """The node's own agent is taken as ever."""
    agent = await connected(channel, world["node"], world["credential"], runs=world["names"][:1])
    await agent.write(heartbeat(7))
    assert (await message(agent, "heartbeat_ack")).sequence == 7
    agent.cancel()


def told(world: dict[str, Any], said: Message) -> None:
    async def talk() -> None:
        async with whole_gateway() as address, grpc.aio.insecure_channel(address) as channel:
            match said:
                case session_pb2.FromAgent():
                    if said.WhichOneof("message") == "hello":
                        call = called(channel, world["credential"])
                    else:
                        call = await connected(
                            channel, world["node"], world["credential"], runs=world["names"][:1]
                        )
                    await call.write(said)
                    await call.done_writing()
                    assert await end_of(call) not in BROKEN
                case uplink_pb2.Batch():
                    call = uplink_pb2_grpc.UplinkStub(channel).Push(metadata=authorised(world["credential"]))
                    await call.write(said)
                    await call.done_writing()
                    assert await end_of(call) is grpc.StatusCode.OK
                case enrolment_pb2.JoinRequest():
                    joining = enrolment_pb2_grpc.EnrolmentStub(channel).Join(said)
                    assert await joining.code() not in BROKEN
            await goes_on(channel, world)

    asyncio.run(talk())


@pytest.mark.parametrize("part", ["hello", "heartbeat", "observed"])
def test_whatever_an_agent_says_in_its_session(world: dict[str, Any], part: str) -> None:
    kinds = {"hello": session_pb2.Hello, "heartbeat": session_pb2.Heartbeat, "observed": session_pb2.Observed}

    @FEW
    @given(arbitrary(kinds[part], world["names"]))
    def check(said: Any) -> None:
        told(world, session_pb2.FromAgent(**{part: said}))

    check()


def test_whatever_an_agent_pushes(world: dict[str, Any]) -> None:
    @FEW
    @given(arbitrary(uplink_pb2.Batch, world["names"]))
    def check(said: uplink_pb2.Batch) -> None:
        said.attempt_id = world["names"][0]
        told(world, said)

    check()


def test_whatever_a_stranger_sends_to_join(world: dict[str, Any]) -> None:
    @FEW
    @given(arbitrary(enrolment_pb2.JoinRequest, [BOOTSTRAP]))
    def check(said: enrolment_pb2.JoinRequest) -> None:
        told(world, said)

    check()
