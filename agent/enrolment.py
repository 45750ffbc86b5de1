"""How this machine becomes a node: the bootstrap token is exchanged once for its own credential."""

from __future__ import annotations

import grpc.aio

from agent import identity as identities
from agent.channel import Refused, authorisation, is_shut_out, sentence_of
from agent.config import AgentConfig
from agent.identity import Identity
from platform_core.node.description import NodeDescription
from trainmaster_wire.agent.v1 import enrolment_pb2 as pb
from trainmaster_wire.agent.v1 import enrolment_pb2_grpc
from trainmaster_wire.conversion import to_wire

JOIN_TIMEOUT_SECONDS = 20


async def join(channel: grpc.aio.Channel, config: AgentConfig, node: NodeDescription) -> Identity:
    """Joins and keeps the credential. Raises Refused, or AioRpcError where trying again may help."""
    if not config.token:
        raise Refused(
            f"This node has not joined {config.server} (no credential in {config.data / identities.FILE})."
            " Start it once with --token and a bootstrap token of the platform."
        )
    earlier = identities.load(config.data)
    request = pb.JoinRequest(
        bootstrap_token=config.token, node=to_wire(node), node_id=earlier.node_id if earlier else ""
    )
    stub = enrolment_pb2_grpc.EnrolmentStub(channel)
    try:
        shown = authorisation(earlier) if earlier else None
        reply = await stub.Join(request, timeout=JOIN_TIMEOUT_SECONDS, metadata=shown)
    except grpc.aio.AioRpcError as error:
        if not is_shut_out(error):
            raise
        raise Refused(
            f"{config.server} did not take this node in: {sentence_of(error)}."
            " A bootstrap token is good for a limited number of joins; make a new one on the nodes page."
        ) from error
    identity = Identity(reply.node_id, reply.credential)
    identities.save(config.data, identity)
    return identity
