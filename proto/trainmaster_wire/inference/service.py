"""The Open Inference Protocol (KServe v2) over gRPC: each call becomes the same call of its HTTP form.

The model server answers them itself, and a router for all endpoints: they differ only in whom they ask.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import quote

import grpc
import grpc.aio

from trainmaster_wire.inference.tensors import body_of, response_of
from trainmaster_wire.inference.v2 import open_inference_pb2 as wire
from trainmaster_wire.inference.v2 import open_inference_pb2_grpc

LARGEST_MESSAGE = 64 << 20
LENGTH_HEADER = b"inference-header-content-length"
PASSED_ON = (
    "authorization",
    "x-priority",
    "x-session",
    "x-request-id",
    "x-trainmaster-replica",
)  # of the metadata
_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT, 401: grpc.StatusCode.UNAUTHENTICATED, 404: grpc.StatusCode.NOT_FOUND,
    413: grpc.StatusCode.RESOURCE_EXHAUSTED, 429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    502: grpc.StatusCode.UNAVAILABLE, 503: grpc.StatusCode.UNAVAILABLE, 504: grpc.StatusCode.DEADLINE_EXCEEDED,
}  # fmt: skip

Headers = dict[bytes, bytes]
Context = grpc.aio.ServicerContext[Any, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    headers: Mapping[bytes, bytes]
    body: bytes

    @property
    def sentence(self) -> str:
        try:
            return str(json.loads(self.body)["error"])
        except (ValueError, KeyError, TypeError):
            return f"the server answered {self.status}"


class Door(Protocol):
    """Where a call goes. A reply of any status is a value; only a caller who leaves ends it."""

    async def ready(self) -> bool: ...

    async def ask(self, model: str, method: str, path: str, headers: Headers, body: bytes) -> Reply:
        """`path` is below the address of the model, quoted as in an URL: /infer, or /versions/3/ready."""


class Inference(open_inference_pb2_grpc.GRPCInferenceServiceServicer):
    def __init__(self, door: Door) -> None:
        self._door = door

    async def ServerLive(self, request: wire.ServerLiveRequest, context: Context) -> wire.ServerLiveResponse:
        return wire.ServerLiveResponse(live=True)

    async def ServerReady(
        self, request: wire.ServerReadyRequest, context: Context
    ) -> wire.ServerReadyResponse:
        return wire.ServerReadyResponse(ready=await self._door.ready())

    async def ServerMetadata(
        self, request: wire.ServerMetadataRequest, context: Context
    ) -> wire.ServerMetadataResponse:
        return wire.ServerMetadataResponse(name="trainmaster", version="2", extensions=["binary_tensor_data"])

    async def ModelReady(self, request: wire.ModelReadyRequest, context: Context) -> wire.ModelReadyResponse:
        path = f"{_version(request.version)}/ready"
        reply = await self._door.ask(request.name, "GET", path, _headers(context), b"")
        if reply.status not in (200, 503):
            await _refuse(context, reply)
        return wire.ModelReadyResponse(ready=reply.status == 200)

    async def ModelMetadata(
        self, request: wire.ModelMetadataRequest, context: Context
    ) -> wire.ModelMetadataResponse:
        path = _version(request.version)
        reply = await self._door.ask(request.name, "GET", path, _headers(context), b"")
        if reply.status != 200:
            await _refuse(context, reply)
        document = json.loads(reply.body)
        response = wire.ModelMetadataResponse(
            name=request.name, versions=document["versions"], platform=document["platform"]
        )
        for field in ("inputs", "outputs"):
            getattr(response, field).extend(
                wire.ModelMetadataResponse.TensorMetadata(**tensor) for tensor in document[field]
            )
        return response

    async def ModelInfer(self, request: wire.ModelInferRequest, context: Context) -> wire.ModelInferResponse:
        try:
            body, length = body_of(request)
        except ValueError as error:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        headers = _headers(context) | {LENGTH_HEADER: str(length).encode()}
        path = f"{_version(request.model_version)}/infer"
        reply = await self._door.ask(request.model_name, "POST", path, headers, body)
        if reply.status != 200:
            await _refuse(context, reply)
        response = response_of(
            reply.body, int(reply.headers[LENGTH_HEADER]), bool(request.raw_input_contents)
        )
        response.model_name = request.model_name
        return response


def make_server(door: Door, listen: str) -> grpc.aio.Server:
    """Not started yet. Raises RuntimeError where the address is taken."""
    options = [
        ("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.max_send_message_length", LARGEST_MESSAGE),
        ("grpc.so_reuseport", 0),
    ]  # fmt: skip
    server = grpc.aio.server(options=options)
    open_inference_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(Inference(door), server)
    server.add_insecure_port(listen)
    return server


def _version(version: str) -> str:
    """Quoted: it is any text of the caller."""
    return f"/versions/{quote(version, safe='')}" if version else ""


def _headers(context: Context) -> Headers:
    """As the HTTP form has them; the deadline of the call is that of the request."""
    known = {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
    headers = {name.encode(): known[name].encode("latin-1", "replace") for name in PASSED_ON if name in known}
    left = context.time_remaining()
    if left is not None:
        headers[b"x-deadline-ms"] = str(max(0, round(left * 1_000))).encode()
    return headers


async def _refuse(context: Context, reply: Reply) -> None:
    wait = reply.headers.get(b"retry-after")
    trailing = (("retry-after", wait.decode()),) if wait else ()
    await context.abort(_CODES.get(reply.status, grpc.StatusCode.INTERNAL), reply.sentence, trailing)
