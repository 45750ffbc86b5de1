"""The real platform in a folder of its own, and nodes that have joined it and run nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from trainmaster_wire.agent.v1 import enrolment_pb2, enrolment_pb2_grpc
from webapp.operations.platform_process import PlatformProcess
from webapp.operations.state_folder import read_environment

# One connection for each session, as between real machines; grpc would share them within a process.
OPTIONS = [("grpc.use_local_subchannel_pool", 1)]
JOINING_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class LivePlatform:
    process: PlatformProcess
    environment: Mapping[str, str]
    credentials: tuple[str, ...]  # of the nodes, in the order of their numbers

    @property
    def address(self) -> str:
        return self.environment["TRAINMASTER_GATEWAY_LISTEN"]


@contextmanager
def live_platform(nodes: int, settings: Mapping[str, str] | None = None) -> Iterator[LivePlatform]:
    """Stopped and removed at the end, whatever happened."""
    folder = Path(tempfile.mkdtemp(prefix="trainmaster-bench-"))
    folder.chmod(0o711)  # the database may run as another user
    os.environ.update(settings or {})  # the platform is our child
    process = PlatformProcess.start(folder / "var", "--agents", "0")
    try:
        environment = read_environment(folder / "var" / "platform.env")
        address, token = environment["TRAINMASTER_GATEWAY_LISTEN"], environment["TRAINMASTER_BOOTSTRAP_TOKEN"]
        yield LivePlatform(process, environment, asyncio.run(_join(address, token, nodes)))
    finally:
        process.stop()
        shutil.rmtree(folder, ignore_errors=True)


def node(index: int) -> enrolment_pb2.NodeDescription:
    slots = [enrolment_pb2.SlotDescription(index=slot, name="bench") for slot in range(8)]
    return enrolment_pb2.NodeDescription(
        hostname=f"bench-{index}", rack=f"rack-{index // 16}", gpu_type="bench", slots=slots, cpus=64,
        memory_bytes=2**39, disk_bytes=2**41, agent_version="bench", address="127.0.0.1",
        transfer_port=1, rendezvous_port_low=20000, rendezvous_port_high=20999,
    )  # fmt: skip


async def _join(address: str, token: str, count: int) -> tuple[str, ...]:
    gate = asyncio.Semaphore(JOINING_AT_ONCE)
    async with grpc.aio.insecure_channel(address) as channel:
        stub = enrolment_pb2_grpc.EnrolmentStub(channel)

        async def one(index: int) -> str:
            async with gate:
                request = enrolment_pb2.JoinRequest(bootstrap_token=token, node=node(index))
                return str((await stub.Join(request)).credential)

        return tuple(await asyncio.gather(*(one(index) for index in range(count))))
