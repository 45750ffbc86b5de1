"""An endpoint of two replicas behind two routers, and what its callers lose when a part of the platform is killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil

from benchmarks.rig.serving_load import Address, call, request_of
from benchmarks.rig.serving_systems import free_port
from benchmarks.rig.survival_site import GPU_TYPE, Node, Site, site
from webapp.operations.programs import ROOT, ROUTER, runnable

MODEL = "class Model:\n    def __init__(self, folder):\n        pass\n\n    def predict(self, rows):\n" \
        "        return [sum(row) for row in rows]\n"  # fmt: skip
PATH = "endpoints/bench/sums"
REPLICAS, CALLERS = 2, 8
PAUSE_S = 0.05  # of each caller between two requests: what is killed needs the processors to start again
PATIENCE = 240  # seconds, of each wait for the platform


@dataclass
class Service:
    site: Site
    token: str
    routers: list[tuple[Address, subprocess.Popen[bytes]]] = field(default_factory=list)

    @property
    def addresses(self) -> list[Address]:
        return [address for address, _ in self.routers]

    def start_router(self) -> None:
        port = free_port()
        command = [*runnable(ROUTER), "--host", "127.0.0.1", "--port", str(port)]
        environment = os.environ | dict(self.site.live.environment) | {"TRAINMASTER_ROUTER_GRPC_LISTEN": ""}
        with (self.site.folder / f"router-{port}.log").open("ab") as log:
            process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=log, stderr=log)
        headers = (("Authorization", f"Bearer {self.token}"),)
        self.routers.append((Address("127.0.0.1", port, f"/{PATH}/predict", headers), process))

    def is_ready(self) -> bool:
        seen = self.site.client.call("GET", PATH)
        return [one["state"] for one in seen["replicas"]] == ["ready"] * REPLICAS

    def replica(self) -> tuple[Node, psutil.Process]:
        """One that runs, and its node."""
        for node in self.site.nodes:
            for root in node.roots():
                for child in root.children(recursive=True):
                    with suppress(psutil.Error):
                        if "trainmaster.serving" in child.cmdline():
                            return node, child
        raise RuntimeError("no replica runs")


@dataclass(slots=True)
class Seen:
    answered: int = 0
    lost: list[int] = field(default_factory=list)  # the status of each answer other than 200; 0: no answer


@contextmanager
def service(it: Site) -> Iterator[Service]:
    """Until the end its endpoint takes slots of the site."""
    file = it.folder / "model.py"
    file.write_text(MODEL)
    manifest = it.client.upload("model", "bench", "sums", [("model.py", file)])
    it.client.register_version("sums", team="bench", manifest=manifest)
    it.client.call("POST", "endpoints", json={
        "name": "sums", "team": "bench", "model": "sums", "gpu_type": GPU_TYPE, "min_replicas": REPLICAS,
        "max_replicas": REPLICAS,
    })  # fmt: skip
    token = it.live.process.manage("token", "bench", "bench", "--name", "serving").split()[-1]
    found = Service(it, token)
    try:
        for _ in range(2):
            found.start_router()
        until(found.is_ready, "the replicas are ready")
        yield found
        it.client.call("DELETE", PATH)
        until(lambda: not it.client.call("GET", "endpoints")["results"], "the endpoint is stopped")
    finally:
        for _, process in found.routers:
            process.kill()
            process.wait()


def under_load(service: Service, fault: Callable[[], Awaitable[None]]) -> Seen:
    """What callers see while `fault` happens and is mended; half of them begin at either router."""
    return asyncio.run(_under_load(service, fault))


async def _under_load(service: Service, fault: Callable[[], Awaitable[None]]) -> Seen:
    seen, running = Seen(), True

    def record(status: int, body: bytes, began: float, ended: float) -> None:
        if status == 200:
            seen.answered += 1
        else:
            seen.lost.append(status)

    request = request_of(service.addresses[0], 0, (1.0, 2.0))
    callers = []
    for number in range(CALLERS):
        addresses = service.addresses if number % 2 else service.addresses[::-1]
        callers.append(asyncio.create_task(call(addresses, request, lambda: running, record, PAUSE_S)))
    try:
        await _answers(seen, 100)
        await fault()
        await _answers(seen, 100)
    finally:
        running = False
        await asyncio.gather(*callers)
    return seen


async def _answers(seen: Seen, more: int) -> None:
    wanted, deadline = seen.answered + more, time.monotonic() + PATIENCE
    while seen.answered < wanted:
        if time.monotonic() > deadline:
            raise RuntimeError(f"not {more} answers within {PATIENCE} s; lost {seen.lost}")
        await asyncio.sleep(0.02)


def replica_killed(service: Service) -> Callable[[], Awaitable[None]]:
    async def fault() -> None:
        _, process = await asyncio.to_thread(service.replica)
        process.kill()
        await asyncio.to_thread(until, lambda: not process.is_running(), "it has ended")
        await asyncio.to_thread(until, service.is_ready, "the replica was started again")

    return fault


def router_killed(service: Service) -> Callable[[], Awaitable[None]]:
    async def fault() -> None:
        _, process = service.routers.pop(0)
        process.kill()
        await asyncio.to_thread(process.wait)

    return fault


def agent_killed(service: Service) -> Callable[[], Awaitable[None]]:
    async def fault() -> None:
        node, replica = await asyncio.to_thread(service.replica)
        await asyncio.to_thread(node.kill_agent)
        await asyncio.sleep(2)
        await asyncio.to_thread(node.start)
        await asyncio.to_thread(until, service.is_ready, "the replica is ready beside its new agent")
        if not replica.is_running():
            raise RuntimeError("the replica ended with its agent")

    return fault


def gateway_killed(service: Service) -> Callable[[], Awaitable[None]]:
    async def fault() -> None:
        await asyncio.to_thread(service.site.kill_gateway)
        await asyncio.sleep(2)
        await asyncio.to_thread(service.site.start_gateway)
        nodes = len(service.site.nodes)
        ready = lambda: sum(node.state == "ready" for node in service.site.client.nodes()) == nodes  # noqa: E731
        await asyncio.to_thread(until, ready, "the nodes are back")

    return fault


FAULTS: dict[str, Callable[[Service], Callable[[], Awaitable[None]]]] = {
    "replica": replica_killed,
    "agent": agent_killed,
    "gateway": gateway_killed,
    "router": router_killed,
}


def faults() -> Iterator[dict[str, Any]]:
    with site() as place, service(place) as it:
        for name, fault in FAULTS.items():
            seen = under_load(it, fault(it))
            yield {
                "measure": "fault", "killed": name, "answered": seen.answered, "lost": len(seen.lost),
                "without_an_answer": seen.lost.count(0), "callers": CALLERS,
            }  # fmt: skip


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.1)
