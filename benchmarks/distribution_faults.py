"""What failures cost a deployment: each on the rig of `benchmarks.distribution_net`, beside a run without any.

python -m benchmarks.distribution_faults [--workers 8 --rate-mbit 40 --bytes 50331648 --only worker_killed,…]

Needs root. JSON lines, one a fault: delay_s (the last of the untouched workers, against the run without a fault),
allowed_s (what the design allows for that fault), all_verified (the untouched and those that came back), egress_copies,
back_s and fetched_again (of a worker that returned: how long it took, and which part of the model it fetched then).
The fault comes when half of the workers hold 37 % of the model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.distribution_net import is_right
from benchmarks.rig import cluster, network
from benchmarks.rig.gateway import Gateway
from benchmarks.rig.model import make_model
from benchmarks.rig.network import Host, Network
from platform_core.distribution.forest import STORE, Forest
from platform_core.distribution.manifest import Manifest
from platform_core.distribution.planners import mesh

MODULE = "benchmarks.distribution_faults"
LIMIT_SECONDS = 180
POLL_SECONDS = 0.05
FAULT_AT = 0.37
AWAY_SECONDS = 10.0


@dataclass
class Run:
    """One deployment under way."""

    manifest: Manifest
    network: Network
    store: cluster.Store
    fleet: cluster.Agents
    gateway: Gateway
    forest: Forest
    touched: set[str] = field(default_factory=set)  # their own time does not count
    returned: dict[str, tuple[float, int]] = field(default_factory=dict)  # when, and with how many bytes
    done: dict[str, float] = field(default_factory=dict)
    start: float = 0.0

    def puller(self) -> str:
        return next(seat.node for seat in self.forest.seats if STORE in seat.parents)

    def inner(self) -> str:
        """Somebody who feeds others and pulls as little as possible from the store."""
        feeding = {parent for seat in self.forest.seats for parent in seat.parents}
        seats = [seat for seat in self.forest.seats if seat.node in feeding]
        return min(seats, key=lambda seat: (seat.parents.count(STORE), seat.node)).node

    def child_of(self, node: str) -> str:
        return next(seat.node for seat in self.forest.seats if node in seat.parents)

    def home(self, node: str) -> Path:
        return self.fleet.folder / f"data-{node}" / "models" / "rig" / "model" / "1"

    def kill(self, *nodes: str) -> None:
        for node in nodes:
            self.touched.add(node)
            self.fleet.kill(node)

    def bring_back(self, node: str) -> None:
        self.returned[node] = (time.monotonic(), self.gateway.observed[node].bytes_done)
        self.fleet.start(node)


async def worker_killed(run: Run) -> None:
    """It returns and fetches only what it lacks."""
    node = run.inner()
    run.kill(node)
    await asyncio.sleep(3)
    run.bring_back(node)


async def two_neighbours_killed(run: Run) -> None:
    node = run.inner()
    run.kill(node, run.child_of(node))


async def puller_killed(run: Run) -> None:
    run.kill(run.puller())


async def worker_paused(run: Run) -> None:
    node = run.inner()
    run.touched.add(node)
    run.fleet.signal(node, signal.SIGSTOP)
    await asyncio.sleep(AWAY_SECONDS)
    run.fleet.signal(node, signal.SIGCONT)


async def node_cut_off(run: Run) -> None:
    node = run.inner()
    run.touched.add(node)
    run.network.cut(run.network.hosts[node])
    await asyncio.sleep(AWAY_SECONDS)
    run.network.mend(run.network.hosts[node])


async def coordinator_killed(run: Run) -> None:
    await run.gateway.stop()
    await asyncio.sleep(AWAY_SECONDS)
    await run.gateway.start(network.HUB_ADDRESS)


async def store_answers_503(run: Run) -> None:
    run.store.behave("503")
    await asyncio.sleep(2)
    run.store.behave("ok")


# The fault, and how long it may hold the others up. Silence is noticed after 3 s and a part's time; a store that
# refuses for 2 s is asked again 1 s and then 2 s later.
FAULTS: dict[str, tuple[Callable[[Run], Awaitable[None]], float]] = {
    "worker_killed": (worker_killed, 1.5),
    "two_neighbours_killed": (two_neighbours_killed, 1.5),
    "puller_killed": (puller_killed, 1.5),
    "worker_paused": (worker_paused, 5.0),
    "node_cut_off": (node_cut_off, 5.0),
    "coordinator_killed": (coordinator_killed, 0.5),
    "store_answers_503": (store_answers_503, 3.5),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rate-mbit", type=int, default=40)
    parser.add_argument("--bytes", type=int, default=48 << 20)
    parser.add_argument("--piece", type=int, default=128 << 10)
    parser.add_argument("--only", default=",".join(FAULTS))
    options = parser.parse_args()
    chosen = options.only.split(",")
    if unknown := sorted(set(chosen) - set(FAULTS)):
        parser.error(f"no such fault: {', '.join(unknown)}; there are {', '.join(FAULTS)}")
    if not network.inside_hub():
        sys.exit(network.enter_hub(MODULE))
    with tempfile.TemporaryDirectory(prefix="faults-") as folder:
        root = Path(folder)
        manifest = make_model(root / "store", options.bytes, options.piece)
        net = Network(options.rate_mbit)
        source = net.add("store")
        hosts = cluster.make_hosts(net, options.workers)
        healthy = asyncio.run(measure(root, manifest, net, source, hosts, None))
        print(json.dumps({"fault": "none", **healthy}), flush=True)
        for name in chosen:
            fault, allowed = FAULTS[name]
            seen = asyncio.run(measure(root, manifest, net, source, hosts, fault))
            delay = round(seen["last_done_s"] - healthy["last_done_s"], 2)
            print(json.dumps({"fault": name, "delay_s": delay, "allowed_s": allowed, **seen}), flush=True)


async def measure(
    root: Path, manifest: Manifest, net: Network, source: Host, hosts: list[Host],
    fault: Callable[[Run], Awaitable[None]] | None,
) -> dict[str, Any]:  # fmt: skip
    async with deployment(root, manifest, net, source, hosts) as run:
        watching = asyncio.create_task(watch(run))
        if fault is not None:
            await share_reached(run)
            await fault(run)
        waited = {host.name for host in hosts} - (run.touched - set(run.returned))
        async with asyncio.timeout(LIMIT_SECONDS):
            while not waited <= set(run.done):
                await asyncio.sleep(POLL_SECONDS)
        watching.cancel()
        right = all(is_right(run.home(node) / "weights.bin", manifest) for node in waited)
        untouched = [moment for node, moment in run.done.items() if node not in run.touched]
        told: dict[str, Any] = {
            "workers": len(hosts),
            "last_done_s": round(max(untouched) - run.start, 2),
            "egress_copies": round(run.store.sent() / manifest.total_bytes, 3),
            "all_verified": right,
        }
        for node, (since, had) in run.returned.items():
            told["back_s"] = round(run.done[node] - since, 2)
            told["fetched_again"] = round(1 - had / manifest.total_bytes, 3)
        return told


@asynccontextmanager
async def deployment(
    root: Path, manifest: Manifest, net: Network, source: Host, hosts: list[Host]
) -> AsyncIterator[Run]:
    gateway = Gateway()
    fleet = cluster.Agents(hosts, root / "agents", await gateway.start(network.HUB_ADDRESS))
    store = cluster.Store(source, root / "store")
    forest = cluster.plan(sorted(fleet.hosts), mesh.LANES)
    run = Run(manifest, net, store, fleet, gateway, forest)
    try:
        for host in hosts:
            # A fixed port: who comes back is found where it was.
            fleet.start(host.name, "--transfer-port", "7800")
        await gateway.until(lambda: len(gateway.addresses) == len(hosts), LIMIT_SECONDS)
        run.start = time.monotonic()
        await gateway.want(cluster.orders(forest, manifest, store.url, gateway))
        yield run
    finally:
        fleet.stop()
        store.stop()
        await gateway.stop()
        shutil.rmtree(root / "agents")


async def watch(run: Run) -> None:
    """By the files themselves: the control plane may be away."""
    while True:
        for node in run.fleet.hosts:
            if node not in run.done and run.home(node).exists():
                run.done[node] = time.monotonic()
        await asyncio.sleep(POLL_SECONDS)


async def share_reached(run: Run) -> None:
    wanted = FAULT_AT * run.manifest.total_bytes
    half = len(run.fleet.hosts) // 2
    await run.gateway.until(
        lambda: sum(each.bytes_done >= wanted for each in run.gateway.observed.values()) >= half,
        LIMIT_SECONDS,
    )


if __name__ == "__main__":
    main()
