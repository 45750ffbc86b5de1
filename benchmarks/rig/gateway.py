"""The control plane of a benchmark: takes agents in, tells them what is wanted, hears what they observe."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import grpc.aio

from platform_core.distribution.content.manifest import Manifest, to_json
from platform_core.distribution.deployments.presence import began_anew
from trainmaster_wire.agent.v1 import (
    enrolment_pb2,
    enrolment_pb2_grpc,
    manifest_pb2,
    session_pb2,
    session_pb2_grpc,
)
from trainmaster_wire.agent.v1.session_pb2 import DeploymentObserved, DeploymentWanted

AT_WORK = (DeploymentObserved.IDLE, DeploymentObserved.RECEIVING)


class Gateway:
    def __init__(self, manifest: Manifest, port: int = 0) -> None:
        self.manifest, self.manifest_json = manifest, to_json(manifest).encode()  # of the one deployment
        self.addresses: dict[str, str] = {}  # by node: where it serves pieces
        self.manifest_requests = 0
        self.observed: dict[str, DeploymentObserved] = {}  # of the one deployment
        self.heard_ms: dict[str, int] = {}  # when a node last told of it
        self.anew: set[str] = set()  # who has begun anew, or is not believed, since a coordinator asked
        self.done_at: dict[str, float] = {}  # when a node was first seen to be complete
        self._wanted: dict[str, tuple[int, DeploymentWanted]] = {}
        self._orders = asyncio.Condition()
        # Apart from the orders: a report wakes whoever watches the benchmark, not the sessions of all other nodes.
        self._news = asyncio.Condition()
        self._server: grpc.aio.Server | None = None
        self.port = port

    async def start(self, host: str) -> str:
        self._server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        enrolment_pb2_grpc.add_EnrolmentServicer_to_server(_Enrolment(), self._server)
        session_pb2_grpc.add_AgentSessionServicer_to_server(_Session(self), self._server)
        self.port = self._server.add_insecure_port(f"{host}:{self.port}")
        await self._server.start()
        return f"{host}:{self.port}"

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(grace=0)

    async def want(self, orders: dict[str, DeploymentWanted]) -> None:
        async with self._orders:
            for node, order in orders.items():
                self._wanted[node] = (self._wanted.get(node, (0, order))[0] + 1, order)
            self._orders.notify_all()

    async def until(self, condition: Callable[[], bool], seconds: float) -> None:
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(condition)

    # -- the agents' side

    async def met(self, node: str, description: enrolment_pb2.NodeDescription) -> None:
        async with self._news:
            self.addresses[node] = f"{description.address}:{description.transfer_port}"
            self._news.notify_all()

    async def heard(self, node: str, observed: session_pb2.Observed) -> None:
        async with self._news:
            for deployment in observed.deployments:
                self._compare(node, self.observed.get(node, deployment), deployment)
                self.observed[node] = deployment
                self.heard_ms[node] = int(time.monotonic() * 1000)
                if deployment.state == DeploymentObserved.FAILED:
                    print(f"{node}: {deployment.error}", file=sys.stderr)
                if deployment.state == DeploymentObserved.COMPLETE:
                    self.done_at.setdefault(node, time.monotonic())
            self._news.notify_all()

    def _compare(self, node: str, before: DeploymentObserved, now: DeploymentObserved) -> None:
        if now.state in AT_WORK and began_anew(before.held, now.held):
            self.anew.add(node)
        self.anew |= set(now.distrusted) - {
            name for seen in self.observed.values() for name in seen.distrusted
        }

    async def wanted(self, node: str, told: int) -> tuple[int, DeploymentWanted]:
        async with self._orders:
            await self._orders.wait_for(lambda: self._wanted.get(node, (told, None))[0] != told)
            return self._wanted[node]


class _Enrolment(enrolment_pb2_grpc.EnrolmentServicer):
    async def Join(self, request: enrolment_pb2.JoinRequest, context: Any) -> enrolment_pb2.JoinReply:
        name = request.node.hostname
        return enrolment_pb2.JoinReply(node_id=name, credential=name)


class _Session(session_pb2_grpc.AgentSessionServicer):
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def Connect(
        self, request_iterator: AsyncIterator[session_pb2.FromAgent], context: Any
    ) -> AsyncIterator[session_pb2.FromServer]:
        node = dict(context.invocation_metadata())["authorization"].removeprefix("Bearer ")
        listening = asyncio.create_task(self._listen(node, request_iterator))
        try:
            welcome = session_pb2.Welcome(
                node_id=node, heartbeat_seconds=10, outbound_hosts=["127.0.0.0/8", "10.77.0.0/24"]
            )
            yield session_pb2.FromServer(welcome=welcome)
            told = 0
            while True:
                told, order = await self._gateway.wanted(node, told)
                yield session_pb2.FromServer(wanted=session_pb2.Wanted(revision=told, deployments=[order]))
        finally:
            listening.cancel()

    async def Manifest(
        self, request: manifest_pb2.ManifestRequest, context: Any
    ) -> manifest_pb2.ManifestReply:
        self._gateway.manifest_requests += 1
        return manifest_pb2.ManifestReply(manifest_json=self._gateway.manifest_json)

    async def HashFiles(self, request: Any, context: Any) -> Any:
        raise NotImplementedError  # nothing is registered

    async def _listen(self, node: str, messages: AsyncIterator[session_pb2.FromAgent]) -> None:
        async for message in messages:
            match message.WhichOneof("message"):
                case "hello":
                    await self._gateway.met(node, message.hello.node)
                    await self._gateway.heard(node, message.hello.observed)
                case "observed":
                    await self._gateway.heard(node, message.observed)
