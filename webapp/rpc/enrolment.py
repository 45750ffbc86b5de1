"""A machine becomes a node."""

from typing import Any

from trainmaster_wire.agent.v1 import enrolment_pb2, enrolment_pb2_grpc
from webapp.clusters import services as clusters
from webapp.rpc.conversion import description
from webapp.rpc.database import in_database
from webapp.rpc.status import errors_become_status


class EnrolmentServicer(enrolment_pb2_grpc.EnrolmentServicer):
    async def Join(self, request: enrolment_pb2.JoinRequest, context: Any) -> enrolment_pb2.JoinReply:
        async with errors_become_status(context):
            node_id, credential = await in_database(
                clusters.join, request.bootstrap_token, description(request.node), request.node_id
            )
            return enrolment_pb2.JoinReply(node_id=node_id, credential=credential)
        raise AssertionError("unreachable: the context manager ends the call")
