"""What failures cost a deployment: each on the rig of `benchmarks.distribution_net`, beside a run without any.

python -m benchmarks.distribution_faults [--workers 8 --rate-mbit 40 --bytes 100663296 --only worker_killed,…]

Needs root. JSON lines, one a fault: delay_s (the last of the untouched workers, against the run without a fault),
expected_s (what the design costs there, computed: see benchmarks/rig/faults.py) and allowed_s, all_verified (everybody
who is waited for), egress_copies, mended (how often the coordinator changed the plan); of a worker that returned
back_s and fetched_again (how long it took, and which part of the model it fetched then); of a disk that flips bits
found_by (followers that named the sender, or itself); of a full disk its_error; of a coordinator that was replaced
adopted_s. The fault comes when half of the workers hold 37 % of the model.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.distribution_net import is_right
from benchmarks.rig import cluster, network
from benchmarks.rig.coordinator import Coordinator
from benchmarks.rig.faults import FAULTS, TRANSFER_PORT, Fault, Run, small_disk
from benchmarks.rig.gateway import Gateway
from benchmarks.rig.model import make_model
from benchmarks.rig.network import Host, Network
from platform_core.distribution.content.manifest import Manifest

MODULE = "benchmarks.distribution_faults"
LIMIT_SECONDS = 180
POLL_SECONDS = 0.05
FAULT_AT = 0.37


@dataclass(frozen=True, slots=True)
class Rig:
    root: Path
    manifest: Manifest
    network: Network
    rate_mbit: float
    source: Host
    hosts: tuple[Host, ...]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--rate-mbit", type=int, default=40)
    parser.add_argument("--bytes", type=int, default=96 << 20)
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
        source, hosts = net.add("store"), tuple(cluster.make_hosts(net, options.workers))
        rig = Rig(root, manifest, net, options.rate_mbit, source, hosts)
        healthy = asyncio.run(measure(rig, None))
        print(json.dumps({"fault": "none", **healthy}), flush=True)
        for name in chosen:
            seen = asyncio.run(measure(rig, FAULTS[name]))
            delay = round(seen["last_done_s"] - healthy["last_done_s"], 2)
            print(json.dumps({"fault": name, "delay_s": delay, **seen}), flush=True)


async def measure(rig: Rig, fault: Fault | None) -> dict[str, Any]:
    async with deployment(rig, fault) as run:
        watching = asyncio.create_task(watch(run))
        costs: dict[str, Any] = {}
        if fault is not None:
            expected = fault.expected(run)
            costs = {"expected_s": round(expected, 2), "allowed_s": round(expected + fault.slack, 2)}
            await share_reached(run)
            await fault.happens(run)
        waited = {host.name for host in rig.hosts} - run.lost
        async with asyncio.timeout(LIMIT_SECONDS):
            while not waited <= set(run.done):
                await asyncio.sleep(POLL_SECONDS)
        watching.cancel()
        return costs | _told(run, waited)


def _told(run: Run, waited: set[str]) -> dict[str, Any]:
    size = run.manifest.total_bytes
    untouched = [moment for node, moment in run.done.items() if node not in run.touched]
    told: dict[str, Any] = {
        "workers": len(run.fleet.hosts),
        "last_done_s": round(max(untouched) - run.start, 2),
        "egress_copies": round(run.store.sent() / size, 3),
        "all_verified": all(is_right(run.home(node) / "weights.bin", run.manifest) for node in waited),
        "mended": run.coordinator.mended,
    }
    for node, (since, had) in run.returned.items():
        told["back_s"] = round(run.done[node] - since, 2)
        told["fetched_again"] = round(1 - had / size, 3)
    return told | run.told


@asynccontextmanager
async def deployment(rig: Rig, fault: Fault | None) -> AsyncIterator[Run]:
    gateway, agents = Gateway(rig.manifest), rig.root / "agents"
    fleet = cluster.Agents(rig.hosts, agents, await gateway.start(network.HUB_ADDRESS))
    store = cluster.Store(rig.source, rig.root / "store")
    forest = cluster.plan(sorted(fleet.hosts))
    run = Run(rig.manifest, rig.network, rig.rate_mbit, store, fleet, gateway,
              Coordinator(gateway, forest, lambda forest: run.orders(forest)))  # fmt: skip
    small = run.data(run.inner()) if fault and fault.needs_small_disk else None
    try:
        if small:
            small_disk(small, rig.manifest.total_bytes)
        for host in rig.hosts:
            rig.network.shape(host, rig.rate_mbit)
            fleet.start(host.name, "--transfer-port", TRANSFER_PORT)
        await gateway.until(lambda: len(gateway.addresses) == len(rig.hosts), LIMIT_SECONDS)
        run.start = time.monotonic()
        await gateway.want(dict(run.orders(forest)))
        run.coordinate()
        yield run
    finally:
        fleet.stop()
        store.stop()
        await run.stop_coordinating()
        if small:
            subprocess.run(["umount", str(small)], check=False)
        shutil.rmtree(agents)


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
