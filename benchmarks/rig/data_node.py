"""The dataset cache of one node, as a process: `python -m benchmarks.rig.data_node FOLDER ADDRESS MANIFEST`.

Prints the port on which it serves its pieces. Each line on stdin is an order with the name of an attempt; the answer
says when all files were linked, when a loader had its first batch, and the bytes that came from the store.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from google.protobuf.json_format import ParseDict

from agent.datasets import DatasetCache
from agent.manifests import Manifests
from agent.transfer.orders.deployments import Deployments
from platform_core.node.wanted import DeploymentWanted
from trainmaster.data import DataLoader, TokenBins
from trainmaster_wire.agent.v1 import session_pb2
from trainmaster_wire.conversion import from_wire

BATCH, LENGTH = 64, 512


async def serve(data: Path, address: str, manifest: bytes) -> None:
    async def platform(_: str) -> bytes:
        return manifest

    cache = DatasetCache(data)
    deployments = Deployments(data, Manifests(data, platform), lambda: None, in_use=cache.in_use)
    cache.attach(deployments)
    print(await deployments.start(address), flush=True)
    # As an agent does it: transfers need the threads that all share.
    with ThreadPoolExecutor(1) as lines, ThreadPoolExecutor(1) as preparing:
        loop = asyncio.get_running_loop()
        while text := await loop.run_in_executor(lines, sys.stdin.readline):
            asked = json.loads(text)
            into = data / "attempts" / asked["attempt"]
            into.mkdir(parents=True)
            order = from_wire(DeploymentWanted, ParseDict(asked["order"], session_pb2.DeploymentWanted()))
            answer = await loop.run_in_executor(preparing, partial(fetch, cache, order, into))
            sent = sum(part.store_bytes for part in deployments.observed())
            print(json.dumps({**answer, "store_bytes": sent}), flush=True)
    await deployments.close()


def fetch(cache: DatasetCache, order: DeploymentWanted, into: Path) -> dict[str, Any]:
    begun = time.monotonic()
    cache.bring(order, into, lambda _: None)
    linked = time.monotonic() - begun
    source = TokenBins(into / "*.bin", LENGTH)
    next(iter(DataLoader(source, BATCH, seed=1, collate=list, name=into.name)))
    return {"linked_s": linked, "first_batch_s": time.monotonic() - begun}


def main() -> None:
    data = Path(sys.argv[1])
    data.mkdir(parents=True, exist_ok=True)
    asyncio.run(serve(data, sys.argv[2], Path(sys.argv[3]).read_bytes()))


if __name__ == "__main__":
    main()
