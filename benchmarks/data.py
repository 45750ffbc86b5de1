"""A dataset to the nodes of a gang through the caches of their agents, and to a second attempt on one of them.

python -m benchmarks.data [--nodes 16 --bytes 268435456]

The agents' caches run in this process and reach each other and the store over loopback. JSON lines: gang_fetch with
the copies that left the store (one for each node without the mesh) and the seconds until the last node has linked its
files; second_attempt with the bytes that it fetched.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from agent.datasets import DatasetCache
from agent.manifests import Manifests
from agent.transfer.orders.deployments import Deployments
from platform_core.distribution.content.manifest import Manifest, to_json
from platform_core.distribution.planning import mesh
from platform_core.distribution.planning.forest import STORE, NodePlan, node_plans
from platform_core.distribution.planning.routes import Place
from platform_core.node.wanted import ArtifactReference, DeploymentWanted, Peer
from trainmaster.store import open_store
from trainmaster.store.copying import copy_in, source_url

SHARDS = 16


class Node:
    def __init__(self, name: str, data: Path, manifest: Manifest) -> None:
        self.name, self.data = name, data
        data.mkdir()
        text = to_json(manifest).encode()

        async def platform(_: str) -> bytes:
            return text

        self.cache = DatasetCache(data)
        self.deployments = Deployments(
            data, Manifests(data, platform), lambda: None, in_use=self.cache.in_use
        )
        self.cache.attach(self.deployments)

    async def fetch(self, order: DeploymentWanted, attempt: str) -> None:
        into = self.data / "attempts" / attempt
        into.mkdir(parents=True)
        # As an agent does it: transfers need the threads that all share.
        with ThreadPoolExecutor(1) as own:
            work = partial(self.cache.bring, order, into, lambda _: None)
            await asyncio.get_running_loop().run_in_executor(own, work)

    @property
    def from_store(self) -> int:
        return sum(part.store_bytes for part in self.deployments.observed())


async def measure(folder: Path, count: int, size: int) -> None:
    store = open_store((folder / "store").as_uri())
    shards = ((f"shard-{number:02}.bin", [os.urandom(size // SHARDS)]) for number in range(SHARDS))
    manifest = copy_in(store, "dataset", "snapshot", shards)
    artifact = ArtifactReference(manifest.id, source_url(store.url, "dataset", "snapshot"))
    nodes = [Node(f"node-{number:02}", folder / f"node-{number:02}", manifest) for number in range(count)]
    ports = {node.name: await node.deployments.start("127.0.0.1") for node in nodes}
    plans = {plan.node: plan for plan in node_plans(mesh.plan([Place(node.name) for node in nodes]))}
    orders = {node.name: _order(artifact, plans[node.name], ports) for node in nodes}
    begun = time.monotonic()
    await asyncio.gather(*(node.fetch(orders[node.name], "att-1") for node in nodes))
    seconds = time.monotonic() - begun
    sent = sum(node.from_store for node in nodes)
    _print(
        measure="gang_fetch", nodes=count, bytes=size, copies=round(sent / size, 3), seconds=round(seconds, 3)
    )
    begun = time.monotonic()
    await nodes[-1].fetch(orders[nodes[-1].name], "att-2")
    seconds = time.monotonic() - begun
    fetched = sum(node.from_store for node in nodes) - sent
    _print(measure="second_attempt", bytes=fetched, seconds=round(seconds, 3))
    for node in nodes:
        await node.deployments.close()


def _order(artifact: ArtifactReference, plan: NodePlan, ports: dict[str, int]) -> DeploymentWanted:
    sources = sorted({source for lane in plan.lanes for source in lane} - {STORE})
    return DeploymentWanted(
        f"data-{artifact.manifest_id}", f"_datasets/{artifact.manifest_id}", "1", artifact,
        tuple(Peer(source, f"127.0.0.1:{ports[source]}") for source in sources), "token", plan.lanes, plan.slower,
    )  # fmt: skip


def _print(**line: object) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--bytes", type=int, default=256 << 20)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="benchmark-data-") as folder:
        asyncio.run(measure(Path(folder), options.nodes, options.bytes))


if __name__ == "__main__":
    main()
