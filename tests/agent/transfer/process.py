"""One agent's transfer part as a process of its own: `python -m tests.agent.transfer.process DATA`.

Prints its port, then takes one order a line from stdin (JSON) and prints what it observes whenever that changes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from agent.manifests import Manifests
from agent.transfer.orders.deployments import Deployments
from platform_core.distribution.content.manifest import from_json
from platform_core.node.wanted import ArtifactReference, DeploymentWanted, Peer
from tests.agent.transfer.rig import QUICK, Library
from tests.support.outbound import this_machine
from trainmaster import gate


async def main(data: Path) -> None:
    changed = asyncio.Event()
    library = Library()
    deployments = Deployments(data, Manifests(data, library), changed.set, trying=QUICK)
    print(json.dumps({"port": await deployments.start("127.0.0.1")}), flush=True)
    loop = asyncio.get_running_loop()
    order = json.loads(await loop.run_in_executor(None, sys.stdin.readline))
    peers = tuple(Peer(*peer) for peer in order.pop("peers"))
    artifact = ArtifactReference(**order.pop("artifact"))
    library.add(from_json(order.pop("manifest")))
    deployments.receive(DeploymentWanted(**order, artifact=artifact, peers=peers))
    while True:
        await changed.wait()
        changed.clear()
        for each in deployments.observed():
            seen = {"state": each.state, "bytes_done": each.bytes_done, "source": each.source}
            print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    gate.install(this_machine)
    asyncio.run(main(Path(sys.argv[1])))
