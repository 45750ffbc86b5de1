"""A dataset to the nodes of a gang, to a second attempt on one of them, and through the loader.

python -m benchmarks.data [--nodes 16 --rate-mbit 1000 --bytes 268435456 --samples 50000 --rounds 5]

Every node is the dataset cache of an agent in a process of its own, in a network namespace behind a link of this rate,
and so is the store; that needs root. `--rate-mbit 0` has all of them on one loopback instead. JSON lines:
gang_fetch: the copies that left the store (one for each node without the mesh), the seconds until the last node has
linked its files, and until the last loader has its first batch. second_attempt: the bytes that it fetched.
loader and resume: as `python -m benchmarks.data_loader` prints them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from google.protobuf.json_format import MessageToDict

from benchmarks import data_loader
from benchmarks.rig import cluster, network
from benchmarks.rig.network import Host, Network
from platform_core.distribution.content.manifest import Manifest, ManifestBuilder, to_json
from platform_core.distribution.planning.forest import STORE, NodePlan, node_plans
from platform_core.distribution.planning.sizes import advise
from trainmaster_wire.agent.v1 import session_pb2

SHARDS = 16
BLOCK = 1 << 20
READERS, RATE = 64, 1_250_000_000  # as a registration has them
LOCAL = "127.0.0.1"


class Here(Host):
    """On this machine's loopback."""

    def command(self, *arguments: str) -> list[str]:
        return list(arguments)


class Node:
    def __init__(self, host: Host, folder: Path, manifest: Path) -> None:
        pipe, words = subprocess.PIPE, (str(folder / host.name), host.address, str(manifest))
        command = host.command(sys.executable, "-m", "benchmarks.rig.data_node", *words)
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self.address = f"{host.address}:{self._out.readline().strip()}"

    def fetch(self, order: session_pb2.DeploymentWanted, attempt: str) -> dict[str, Any]:
        asked = {"attempt": attempt, "order": MessageToDict(order, preserving_proto_field_name=True)}
        self._in.write(json.dumps(asked) + "\n")
        self._in.flush()
        answer: dict[str, Any] = json.loads(self._out.readline())
        return answer

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def make_dataset(folder: Path, size: int) -> Manifest:
    """Shards of random bytes, cut as the platform cuts so many."""
    folder.mkdir(parents=True)
    cut = advise(size, READERS, RATE)
    builder = ManifestBuilder("dataset", cut.chunk, cut.piece)
    for shard in range(SHARDS):
        name = f"shard-{shard:02}.bin"
        with (folder / name).open("wb") as file:
            for start in range(0, size // SHARDS, BLOCK):
                block = os.urandom(min(BLOCK, size // SHARDS - start))
                file.write(block)
                builder.feed(name, block)
    return builder.finish()


def gang(folder: Path, hosts: list[Host], source: Host, size: int) -> None:
    manifest = make_dataset(folder / "store", size)
    (folder / "manifest.json").write_text(to_json(manifest))
    store = cluster.Store(source, folder / "store")
    with ThreadPoolExecutor(len(hosts)) as pool:
        nodes = list(pool.map(lambda host: Node(host, folder, folder / "manifest.json"), hosts))
        try:
            names = [host.name for host in hosts]
            addresses = dict(zip(names, (node.address for node in nodes), strict=True))
            plans = {plan.node: plan for plan in node_plans(cluster.plan(names))}
            orders = [_order(manifest, store.url, plans[name], addresses) for name in names]
            begun = time.monotonic()
            answers = list(
                pool.map(lambda node, order: node.fetch(order, "att-1"), nodes, orders, timeout=3600)
            )
            seconds, sent = time.monotonic() - begun, store.sent()
            _print(
                measure="gang_fetch", copies=round(sent / size, 3), nodes=len(hosts), bytes=size,
                seconds=round(max(answer["linked_s"] for answer in answers), 2),
                first_batch_s=round(max(answer["first_batch_s"] for answer in answers), 2), all_s=round(seconds, 2),
            )  # fmt: skip
            again = nodes[-1].fetch(orders[-1], "att-2")
            _print(
                measure="second_attempt", bytes=store.sent() - sent,
                first_batch_s=round(again["first_batch_s"], 3),
            )  # fmt: skip
        finally:
            for node in nodes:
                node.stop()
            store.stop()


def _order(
    manifest: Manifest, url: str, plan: NodePlan, addresses: dict[str, str]
) -> session_pb2.DeploymentWanted:
    named = sorted({source for lane in plan.lanes for source in lane if source != STORE})
    etags = [f'"{file.size}"' for file in manifest.files]  # as the store calls them
    return session_pb2.DeploymentWanted(
        deployment_id=f"data-{manifest.id}", model=f"_datasets/{manifest.id}", version="1", transfer_token="token",
        artifact=session_pb2.ArtifactReference(manifest_id=manifest.id, source_url=url, etags=etags),
        peers=[session_pb2.Peer(node_id=name, address=addresses[name]) for name in named],
        lanes=[session_pb2.Lane(sources=lane) for lane in plan.lanes], slower=sorted(plan.slower),
    )  # fmt: skip


def _print(**line: object) -> None:
    print(json.dumps(line), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--rate-mbit", type=int, default=1000)
    parser.add_argument("--bytes", type=int, default=256 << 20)
    parser.add_argument("--samples", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.rate_mbit and not network.inside_hub():
        sys.exit(network.enter_hub("benchmarks.data"))
    with tempfile.TemporaryDirectory(prefix="benchmark-data-") as folder:
        if options.rate_mbit:
            net = Network(options.rate_mbit)
            source, hosts = net.add("store"), cluster.make_hosts(net, options.nodes)
        else:
            source = Here("store", "", LOCAL, "")
            hosts = [Here(f"n{number:02}", "", LOCAL, "") for number in range(options.nodes)]
        gang(Path(folder), hosts, source, options.bytes)
    data_loader.measure(options.samples, options.rounds)


if __name__ == "__main__":
    main()
