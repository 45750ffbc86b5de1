"""What idle sessions cost the gateway: `python -m benchmarks.sessions [--sessions 1000 --seconds 60]`.

Starts a platform without agents, joins real nodes over gRPC, opens one connection and one session for each, and sends
heartbeats every ten seconds as agents do. Beside it stands the bound: a bare grpc.aio server that acknowledges the
same heartbeats and does nothing else. JSON lines: system, sessions, heartbeats, lost, cpu_s_per_1000_heartbeats,
p50_ms, p99_ms, memory_mib; the last line is the ratio of the two. All on this machine, the clients too.
"""

import asyncio
import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import click
import grpc
import grpc.aio
import psutil

from benchmarks.rig.platform import OPTIONS, live_platform, node
from trainmaster_wire.agent.v1 import session_pb2, session_pb2_grpc
from webapp.operations.platform_process import PlatformProcess

HEARTBEAT_S = 10.0
# Nodes that speak every ten seconds must not be suspected after ten.
SETTINGS = {
    "TRAINMASTER_HEARTBEAT_SECONDS": "10",
    "TRAINMASTER_SUSPECT_AFTER_SECONDS": "30",
    "TRAINMASTER_LOST_AFTER_SECONDS": "90",
}


@dataclass
class Seen:
    latencies_s: list[float] = field(default_factory=list)
    sent: int = 0
    acknowledged: int = 0


def heartbeat(sequence: int) -> session_pb2.FromAgent:
    slots = [
        session_pb2.SlotTelemetry(
            index=slot, utilisation=0.9, memory_used_bytes=2**36, temperature_celsius=60
        )
        for slot in range(8)
    ]
    telemetry = session_pb2.Telemetry(disk_free_bytes=2**40, memory_used_bytes=2**38, slots=slots)
    beat = session_pb2.Heartbeat(sequence=sequence, telemetry=telemetry)
    return session_pb2.FromAgent(heartbeat=beat)


async def session(
    address: str, credential: str, index: int, until: asyncio.Event, seen: Seen, measure: asyncio.Event
) -> None:
    """One agent: Hello, then heartbeats spread over the interval, until told to stop."""
    sent_at: dict[int, float] = {}

    async def speak() -> AsyncIterator[session_pb2.FromAgent]:
        yield session_pb2.FromAgent(
            hello=session_pb2.Hello(node=node(index), observed=session_pb2.Observed())
        )
        await asyncio.sleep(random.random() * HEARTBEAT_S)
        sequence = 0
        while not until.is_set():
            sequence += 1
            if measure.is_set():
                sent_at[sequence] = time.perf_counter()
                seen.sent += 1
            yield heartbeat(sequence)
            try:
                await asyncio.wait_for(until.wait(), HEARTBEAT_S)
            except TimeoutError:
                continue

    async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
        stub = session_pb2_grpc.AgentSessionStub(channel)
        async for message in stub.Connect(speak(), metadata=(("authorization", f"Bearer {credential}"),)):
            if message.WhichOneof("message") == "heartbeat_ack":
                began = sent_at.pop(message.heartbeat_ack.sequence, None)
                if began is not None:
                    seen.latencies_s.append(time.perf_counter() - began)
                    seen.acknowledged += 1


async def load(
    address: str, credentials: Sequence[str], seconds: float, process: psutil.Process
) -> dict[str, Any]:
    """Open all sessions, let them settle for one interval, measure for `seconds`."""
    seen, until, measure = Seen(), asyncio.Event(), asyncio.Event()
    tasks = []
    for index, credential in enumerate(credentials):
        tasks.append(asyncio.create_task(session(address, credential, index, until, seen, measure)))
        await asyncio.sleep(0.01)  # a hundred new sessions a second
    await asyncio.sleep(HEARTBEAT_S + 2)
    broken = [task for task in tasks if task.done()]
    if broken:
        raise click.ClickException(f"{len(broken)} sessions ended early; the first: {broken[0].exception()}")
    before = process.cpu_times()
    measure.set()
    await asyncio.sleep(seconds)
    measure.clear()
    after = process.cpu_times()
    await asyncio.sleep(2)
    cpu_s = after.user + after.system - before.user - before.system
    memory = process.memory_info().rss
    until.set()
    await asyncio.wait(tasks, timeout=30)
    latencies = sorted(seen.latencies_s)
    return {
        "sessions": len(credentials),
        "heartbeats": seen.acknowledged,
        "lost": seen.sent - seen.acknowledged,
        "cpu_s_per_1000_heartbeats": round(1000 * cpu_s / max(1, seen.acknowledged), 3),
        "p50_ms": round(1000 * latencies[len(latencies) // 2], 2),
        "p99_ms": round(1000 * latencies[len(latencies) * 99 // 100], 2),
        "memory_mib": memory >> 20,
    }


class Bare(session_pb2_grpc.AgentSessionServicer):
    """The bound: the same messages over the same library, and nothing done with them."""

    async def Connect(self, request_iterator: Any, context: Any) -> AsyncIterator[session_pb2.FromServer]:
        async for message in request_iterator:
            if message.WhichOneof("message") == "heartbeat":
                ack = session_pb2.HeartbeatAck(sequence=message.heartbeat.sequence)
                yield session_pb2.FromServer(heartbeat_ack=ack)

    async def Manifest(self, request: Any, context: Any) -> Any:
        raise NotImplementedError  # nothing is wanted

    async def HashFiles(self, request: Any, context: Any) -> Any:
        raise NotImplementedError


async def serve_bare(port: int) -> None:
    server = grpc.aio.server()
    session_pb2_grpc.add_AgentSessionServicer_to_server(Bare(), server)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


async def answers(address: str) -> None:
    async with grpc.aio.insecure_channel(address) as channel:
        await asyncio.wait_for(channel.channel_ready(), 30)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def bound(count: int, seconds: float) -> dict[str, Any]:
    port = free_port()
    child = subprocess.Popen([sys.executable, "-m", "benchmarks.sessions", "--serve-bare", str(port)])
    try:
        asyncio.run(answers(f"127.0.0.1:{port}"))
        return asyncio.run(load(f"127.0.0.1:{port}", ["none"] * count, seconds, psutil.Process(child.pid)))
    finally:
        child.kill()
        child.wait()


def gateway(count: int, seconds: float) -> dict[str, Any]:
    with live_platform(count, SETTINGS) as live:
        return asyncio.run(load(live.address, live.credentials, seconds, gateway_process(live.process)))


def gateway_process(platform: PlatformProcess) -> psutil.Process:
    for process in psutil.Process(platform.process.pid).children(recursive=True):
        if process.cmdline()[-1:] == ["gateway"]:
            return process
    raise click.ClickException("The platform has no gateway process.")


@click.command()
@click.option("--sessions", default=1000, show_default=True, type=click.IntRange(1, 20_000))
@click.option("--seconds", default=60.0, show_default=True, type=click.FloatRange(10, 3600))
@click.option("--serve-bare", "port", default=0, hidden=True)
def main(sessions: int, seconds: float, port: int) -> None:
    if port:
        asyncio.run(serve_bare(port))
        return
    ours = gateway(sessions, seconds)
    click.echo(json.dumps({"system": "gateway", **ours}))
    least = bound(sessions, seconds)
    click.echo(json.dumps({"system": "bare grpc.aio", **least}))
    keys = ("cpu_s_per_1000_heartbeats", "p50_ms", "p99_ms")
    click.echo(
        json.dumps({"system": "ratio", **{key: round(ours[key] / max(least[key], 1e-9), 2) for key in keys}})
    )


if __name__ == "__main__":
    main()
