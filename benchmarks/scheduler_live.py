"""The whole way of many jobs: `python -m benchmarks.scheduler_live [--jobs 1000 --nodes 250]`.

Starts a platform without agents and joins simulated ones over real gRPC sessions: they run nothing, and say of each
attempt that it is prepared, runs, and has ended after `--work` seconds. Jobs of 1 to 64 GPUs are submitted over REST.
JSON lines: submissions_per_s, submit_to_start_p50_ms and _p99_ms (from before the request until the first agent was
told), starts_per_s, the processor time of a job in each kind of process, and whether the books agree afterwards. First
a few jobs one by one on the free cluster, where the bound of a second holds; then all at once, where the cluster is
full and most wait for others.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import click
import grpc.aio
import httpx
import psutil

from benchmarks.rig.platform import OPTIONS, LivePlatform, live_platform, node
from trainmaster_wire.agent.v1 import session_pb2, session_pb2_grpc
from webapp.operations.platform_process import PlatformProcess

HEARTBEAT_S = 2.0
GPUS = [1] * 12 + [2] * 4 + [4] * 4 + [8] * 6 + [16] * 3 + [32, 64]
AT_ONCE = 16  # requests on their way
ALONE = 20  # jobs one by one
PREPARE = """
from webapp.accounts import services as accounts, tokens
from webapp.accounts.models import Role
from webapp.accounts.permissions import SYSTEM
from webapp.accounts.queries import actor_of
from webapp.quotas import services as quotas
accounts.create_team(SYSTEM, "bench", "Benchmark")
user = accounts.create_user(SYSTEM, "bench", "password of bench")
accounts.set_role(SYSTEM, "bench", "bench", Role.LEAD)
quotas.edit_quota(SYSTEM, "bench", "bench", guaranteed=100000, maximum=100000, queue_beyond=True, version=0)
print(tokens.create_token(actor_of(user), "bench", "bench", 1).text)
"""
OBSERVED = session_pb2.AttemptObserved


@dataclass
class Seen:
    """When each job was submitted and when its first agent was told; on one clock."""

    submitted: dict[str, float] = field(default_factory=dict)
    told: dict[str, float] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)


@dataclass
class Agent:
    """Says that it does what it is told, and does nothing."""

    index: int
    work_s: float
    seen: Seen
    attempts: dict[str, OBSERVED] = field(default_factory=dict)
    news: asyncio.Queue[session_pb2.FromAgent] = field(default_factory=asyncio.Queue)
    timers: set["asyncio.Task[None]"] = field(default_factory=set)

    async def live(self, address: str, credential: str) -> None:
        metadata = (("authorization", f"Bearer {credential}"),)
        async with grpc.aio.insecure_channel(address, options=OPTIONS) as channel:
            stub = session_pb2_grpc.AgentSessionStub(channel)
            async for message in stub.Connect(self.speak(), metadata=metadata):
                if message.WhichOneof("message") == "wanted":
                    self.obey(message.wanted)

    async def speak(self) -> AsyncIterator[session_pb2.FromAgent]:
        yield session_pb2.FromAgent(
            hello=session_pb2.Hello(node=node(self.index), observed=session_pb2.Observed())
        )
        await asyncio.sleep(random.random() * HEARTBEAT_S)
        sequence = 0
        while True:
            try:
                yield await asyncio.wait_for(self.news.get(), HEARTBEAT_S)
            except TimeoutError:
                sequence += 1
                yield session_pb2.FromAgent(heartbeat=session_pb2.Heartbeat(sequence=sequence))

    def obey(self, wanted: session_pb2.Wanted) -> None:
        there = {each.attempt_id: each for each in wanted.attempts}
        for attempt_id, each in there.items():
            if attempt_id not in self.attempts:
                self.seen.told.setdefault(each.launch.job_id, time.perf_counter())
                task = asyncio.create_task(self.run(attempt_id, each.launch.job_id))
                self.timers.add(task)
                task.add_done_callback(self.timers.discard)
        for attempt_id in [each for each in self.attempts if each not in there]:
            del self.attempts[attempt_id]

    async def run(self, attempt_id: str, job_id: str) -> None:
        for phase, seconds in ((OBSERVED.PREPARING, 0.0), (OBSERVED.RUNNING, self.work_s)):
            self.tell(OBSERVED(attempt_id=attempt_id, phase=phase))
            await asyncio.sleep(seconds)
        self.tell(OBSERVED(attempt_id=attempt_id, phase=OBSERVED.EXITED, uplink_drained=True))
        self.seen.ended.add(job_id)

    def tell(self, observed: OBSERVED) -> None:
        self.attempts[observed.attempt_id] = observed
        everything = session_pb2.Observed(attempts=list(self.attempts.values()))
        self.news.put_nowait(session_pb2.FromAgent(observed=everything))


async def submit(client: httpx.AsyncClient, number: int, gpus: int, seen: Seen) -> None:
    spec = {
        "name": f"bench-{number}", "team": "bench", "command": "true", "num_gpus": gpus, "gpu_type": "bench",
        "max_runtime_hours": 1, "strategy": "custom",
    }  # fmt: skip
    begun = time.perf_counter()
    answer = await client.post("/api/v1/training-jobs", json=spec)
    answer.raise_for_status()
    seen.submitted[answer.json()["id"]] = begun


async def until(jobs: int, seen: Seen, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while len(seen.ended) < jobs:
        if time.monotonic() > deadline:
            raise click.ClickException(f"After {seconds:.0f} s {len(seen.ended)} of {jobs} jobs had ended.")
        await asyncio.sleep(0.2)


def waits(seen: Seen, jobs: list[str]) -> dict[str, float]:
    each = sorted(seen.told[job] - seen.submitted[job] for job in jobs)
    return {
        "submit_to_start_p50_ms": round(1000 * each[len(each) // 2], 1),
        "submit_to_start_p99_ms": round(1000 * each[len(each) * 99 // 100], 1),
    }


PROCESSES = {"web": "uvicorn", "worker": "worker", "gateway": "gateway", "database": "postgres"}


def processor_s(platform: PlatformProcess) -> dict[str, float]:
    """What each kind of process has used so far; of the database also what its processes that have ended used."""
    used = dict.fromkeys(PROCESSES, 0.0)
    for process in psutil.Process(platform.process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            words, times = {Path(word).name for word in process.cmdline()}, process.cpu_times()
            for kind, word in PROCESSES.items():
                if word in words or any(each.startswith(f"{word}:") for each in words):
                    used[kind] += times.user + times.system
                    used[kind] += times.children_user + times.children_system if word in words else 0
    return used


async def load(live: LivePlatform, token: str, jobs: int, work_s: float) -> None:
    seen = Seen()
    agents = [Agent(index, work_s, seen) for index in range(len(live.credentials))]
    sessions = []
    for agent, credential in zip(agents, live.credentials, strict=True):
        sessions.append(asyncio.create_task(agent.live(live.address, credential)))
        await asyncio.sleep(0.01)
    await asyncio.sleep(2 * HEARTBEAT_S)
    headers = {"Authorization": f"Bearer {token}"}
    rng = random.Random(7)
    async with httpx.AsyncClient(base_url=live.process.url, headers=headers, timeout=60) as client:
        for number in range(ALONE):
            await submit(client, number, rng.choice(GPUS), seen)
            await until(number + 1, seen, 60)
        alone = list(seen.submitted)
        click.echo(json.dumps({"cluster": "free", "jobs": ALONE, **waits(seen, alone), "bound_ms": 1000}))
        gate = asyncio.Semaphore(AT_ONCE)

        async def one(number: int, gpus: int) -> None:
            async with gate:
                await submit(client, number, gpus, seen)

        before, begun = processor_s(live.process), time.perf_counter()
        await asyncio.gather(*(one(ALONE + number, rng.choice(GPUS)) for number in range(jobs)))
        submitted_s = time.perf_counter() - begun
        await until(ALONE + jobs, seen, 600)
        after = processor_s(live.process)
    crowd = [job for job in seen.submitted if job not in alone]
    whole_s = max(seen.told[job] for job in crowd) - begun
    click.echo(
        json.dumps(
            {
                "cluster": "crowded", "jobs": jobs, "nodes": len(agents),
                "submissions_per_s": round(jobs / submitted_s, 1), "starts_per_s": round(jobs / whole_s, 1),
                **waits(seen, crowd),
                "cpu_ms_per_job": {kind: round(1000 * (after[kind] - before[kind]) / jobs, 1) for kind in after},
            }
        )
    )  # fmt: skip
    for session in sessions:
        session.cancel()


@click.command()
@click.option("--jobs", default=1000, show_default=True, type=click.IntRange(1, 100_000))
@click.option("--nodes", default=250, show_default=True, type=click.IntRange(8, 5000), help="Of 8 GPUs each.")
@click.option("--work", default=2.0, show_default=True, help="Seconds that each job takes.")
def main(jobs: int, nodes: int, work: float) -> None:
    with live_platform(nodes) as live:
        token = live.process.manage("shell", "--no-imports", "-c", PREPARE).strip()
        asyncio.run(load(live, token, jobs, work))
        click.echo(json.dumps({"books": live.process.manage("check_books").strip()}))


if __name__ == "__main__":
    main()
