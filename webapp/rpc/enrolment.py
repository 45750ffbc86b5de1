"""A machine becomes a node."""

from typing import Any

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from platform_core.errors import TrainmasterError
from trainmaster_wire.agent.v1 import enrolment_pb2
from webapp.nodes import services as clusters
from webapp.rpc import bounds
from webapp.rpc.database import in_database
from webapp.rpc.status import bearer, errors_become_status

JOIN_LIMIT = 256 * 1024  # bytes: anybody may send it


def add_enrolment(server: grpc.aio.Server) -> None:
    """The message is read only once its size is known: whoever sends it has shown no credential."""
    handler = grpc.unary_unary_rpc_method_handler(
        join, response_serializer=enrolment_pb2.JoinReply.SerializeToString
    )
    service = enrolment_pb2.DESCRIPTOR.services_by_name["Enrolment"].full_name
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {"Join": handler}),))


async def join(message: bytes, context: Any) -> enrolment_pb2.JoinReply:
    async with errors_become_status(context):
        request = _read(message)
        node_id, credential = await in_database(
            clusters.join,
            request.bootstrap_token,
            bounds.description(request.node),
            request.node_id,
            bearer(context),
        )
        return enrolment_pb2.JoinReply(node_id=node_id, credential=credential)
    raise AssertionError("unreachable: the context manager ends the call")


def _read(message: bytes) -> enrolment_pb2.JoinRequest:
    if len(message) > JOIN_LIMIT:
        size = f"{len(message):,} bytes"
        raise TrainmasterError("too_large", what="The message", size=size, limit=f"{JOIN_LIMIT:,} bytes")
    try:
        return enrolment_pb2.JoinRequest.FromString(message)
    except DecodeError as error:
        why = "it is no JoinRequest"
        raise TrainmasterError("request_invalid", what="The message", why=why) from error
