"""What a delivery to many nodes costs the gateway: `python -m benchmarks.deployment_live [--nodes 1000 --seconds 30]`.

A real platform, and for each node a real session that sends heartbeats as agents do and tells twice a second how far
its part of one deployment is, with the map of 512 chunks. Nothing moves. One JSON line: nodes, words a second that
were sent, CPU seconds of the gateway a second, how old the newest word is that the database has of a node (p50 and
the oldest), heartbeats sent and lost, their p50 and p99. All on this machine, the clients too.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import click
import grpc.aio
import psutil
import psycopg

from benchmarks.rig.platform import OPTIONS, LivePlatform, live_platform, node
from benchmarks.sessions import HEARTBEAT_S, SETTINGS, Seen, gateway_process, heartbeat
from trainmaster_wire.agent.v1 import session_pb2, session_pb2_grpc

WORD_S = 0.5
CHUNKS = 512
BEGIN = """
from platform_core.distribution.content.manifest import ManifestBuilder
from webapp.accounts import services as accounts
from webapp.accounts.models import Role
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.deployments import services
from webapp.registry import services as registry
accounts.create_team(SYSTEM, "bench", "Benchmark")
user = accounts.create_user(SYSTEM, "bench", "password of bench")
accounts.set_role(SYSTEM, "bench", "bench", Role.LEAD)
builder = ManifestBuilder("model", chunk_size=65536, piece_size=65536)
builder.feed("weights.bin", bytes(512 * 65536))
manifest = artifacts.register(builder.finish(), "bench", "file:///nowhere")
registry.register(actor_of(user), "bench", "model", manifest=manifest.id)
print(services.create(actor_of(user), "bench/model", 1).id)
"""
# What a node tells as its bytes is the time since the beginning in milliseconds, so a row says how old it is.
KEPT = "SELECT bytes_done FROM deployments_worker WHERE state = 'receiving'"


def word(deployment: str, began: float, seconds: float) -> session_pb2.FromAgent:
    since = time.perf_counter() - began
    chunks = (1 << min(CHUNKS, int(CHUNKS * since / seconds))) - 1
    told = session_pb2.DeploymentObserved(
        deployment_id=deployment,
        state=session_pb2.DeploymentObserved.RECEIVING,
        bytes_done=round(since * 1000),
        chunks_done=chunks.to_bytes(CHUNKS // 8, "little"),
        rate_in=1e9,
        rate_out=1e9,
        source="store",
        held=[round(since * 250)] * 4,
    )
    return session_pb2.FromAgent(observed=session_pb2.Observed(deployments=[told]))


class Fleet:
    """All nodes; they tell of the deployment from the moment that it is known."""

    def __init__(self, address: str, seconds: float) -> None:
        self.address, self.seconds = address, seconds
        self.deployment, self.began = "", 0.0
        self.seen, self.words = Seen(), 0
        self.until = asyncio.Event()

    async def session(self, index: int, credential: str) -> None:
        sent_at: dict[int, float] = {}
        async with grpc.aio.insecure_channel(self.address, options=OPTIONS) as channel:
            stub = session_pb2_grpc.AgentSessionStub(channel)
            said = self._said(index, sent_at)
            async for message in stub.Connect(said, metadata=(("authorization", f"Bearer {credential}"),)):
                if message.WhichOneof("message") == "heartbeat_ack":
                    self.seen.acknowledged += 1
                    self.seen.latencies_s.append(
                        time.perf_counter() - sent_at.pop(message.heartbeat_ack.sequence)
                    )

    async def _said(self, index: int, sent_at: dict[int, float]) -> AsyncIterator[session_pb2.FromAgent]:
        yield session_pb2.FromAgent(
            hello=session_pb2.Hello(node=node(index), observed=session_pb2.Observed())
        )
        next_beat = time.perf_counter() + random.random() * HEARTBEAT_S
        await asyncio.sleep(random.random() * WORD_S)
        while not self.until.is_set():
            if self.deployment:
                self.words += 1
                yield word(self.deployment, self.began, self.seconds)
            if time.perf_counter() >= next_beat:
                next_beat += HEARTBEAT_S
                self.seen.sent += 1
                sent_at[self.seen.sent] = time.perf_counter()
                yield heartbeat(self.seen.sent)
            await asyncio.sleep(WORD_S)


async def load(live: LivePlatform, seconds: float) -> dict[str, Any]:
    fleet, process = Fleet(live.address, seconds), gateway_process(live.process)
    tasks = []
    for index, credential in enumerate(live.credentials):
        tasks.append(asyncio.create_task(fleet.session(index, credential)))
        await asyncio.sleep(0.01)  # a hundred new sessions a second
    await asyncio.sleep(5)
    begun = await asyncio.to_thread(live.process.manage, "shell", "--no-imports", "-c", BEGIN)
    fleet.deployment = begun.strip()
    fleet.began, before, fleet.words = time.perf_counter(), cpu_s(process), 0
    await asyncio.sleep(seconds)
    took, words, spent = time.perf_counter() - fleet.began, fleet.words, cpu_s(process) - before
    with psycopg.connect(live.environment["DATABASE_URL"]) as connection:
        kept = [int(done) for (done,) in connection.execute(KEPT)]
        ages = sorted(time.perf_counter() - fleet.began - done / 1000 for done in kept)
    broken = [task for task in tasks if task.done()]
    if broken:
        raise click.ClickException(f"{len(broken)} sessions ended early; the first: {broken[0].exception()}")
    fleet.until.set()
    await asyncio.wait(tasks, timeout=30)
    latencies = sorted(fleet.seen.latencies_s)
    return {
        "nodes": len(live.credentials),
        "receiving": len(kept),
        "words_per_s": round(words / took),
        "gateway_cpu_s_per_s": round(spent / took, 3),
        "kept_age_p50_s": round(ages[len(ages) // 2], 2),
        "kept_age_oldest_s": round(ages[-1], 2),
        "heartbeats": fleet.seen.sent,
        "lost": fleet.seen.sent - fleet.seen.acknowledged,
        "heartbeat_p50_ms": round(1000 * latencies[len(latencies) // 2], 2),
        "heartbeat_p99_ms": round(1000 * latencies[len(latencies) * 99 // 100], 2),
    }


def cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


@click.command()
@click.option("--nodes", default=1000, show_default=True, type=click.IntRange(1, 10_000))
@click.option("--seconds", default=30.0, show_default=True, type=click.FloatRange(5, 3600))
def main(nodes: int, seconds: float) -> None:
    with live_platform(nodes, SETTINGS) as live:
        click.echo(json.dumps(asyncio.run(load(live, seconds))))


if __name__ == "__main__":
    main()
