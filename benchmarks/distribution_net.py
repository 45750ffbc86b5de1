"""A model to many machines over shaped links, by real agents, and by its peers on the same links in the same run.

python -m benchmarks.distribution_net [--workers 16 --rate-mbit 100 --bytes 268435456 --peer libtorrent|aria2|none]

Needs root: every worker is a network namespace behind a link of its own, the store too. JSON lines with system,
workers, last_done_s (from the order to the last worker's verified file), bound_s (one copy at the goodput that plain
TCP reaches on one such link, the best of three times), ratio, egress_copies (bytes of the file that the store sent,
over its size), verified. The agents' line has simulated_ratio too: what the simulator says of the same nodes, rates
and pieces.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.distribution_sim import runs_of
from benchmarks.rig import cluster, memory, network
from benchmarks.rig.gateway import Gateway
from benchmarks.rig.model import make_model
from benchmarks.rig.network import Host, Network
from benchmarks.rig.peers import PEERS, folder_of
from platform_core.distribution.content.manifest import Manifest
from platform_core.distribution.planning.estimate import Conditions, bound_ms

MODULE = "benchmarks.distribution_net"
# Whatever disturbs a measurement makes the link look slower, and all that is compared with it better.
GOODPUT_BYTES, GOODPUT_TIMES = 32 << 20, 3
LIMIT_SECONDS = 180
AGENT_BYTES = 128 << 20  # of memory that an agent takes while it receives, with what the kernel has for it


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--rate-mbit", type=int, default=100)
    parser.add_argument("--bytes", type=int, default=256 << 20)
    parser.add_argument("--piece", type=int, help="512 KiB by default; 1 MiB for more than 16 workers")
    parser.add_argument("--lanes", type=int, help="as many as the planner takes by default")
    parser.add_argument(
        "--peer", action="append", choices=[*PEERS, "none"], help="may be repeated; all of them by default"
    )
    parser.add_argument("--dir", help="where the bytes lie; a temporary folder by default")
    options = parser.parse_args()
    # Each piece costs CPU, and twenty-four workers need more than two cores have.
    options.piece = options.piece or (512 << 10 if options.workers <= 16 else 1 << 20)
    options.peer = [peer for peer in options.peer or PEERS if peer != "none"]
    return options


def main() -> None:
    options = parse()
    if not network.inside_hub():
        sys.exit(network.enter_hub(MODULE))
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="distribution-") as folder:
        root = Path(folder)
        manifest = make_model(root / "store", options.bytes, options.piece)
        net = Network(options.rate_mbit)
        source = net.add("store")
        hosts = cluster.make_hosts(net, options.workers)
        rate = max(goodput(source, hosts[0]) for _ in range(GOODPUT_TIMES))
        bound = options.bytes / rate
        told: dict[str, Any] = {
            "workers": options.workers,
            "rate_mbit": options.rate_mbit,
            "bytes": options.bytes,
        }
        ours = asyncio.run(agents(root, manifest, source, hosts, options.lanes))
        ours["simulated_ratio"] = simulated_ratio(hosts, options, round(rate))
        print(json.dumps(line("trainmaster", told, ours, bound, options.bytes)), flush=True)
        for peer in options.peer:
            with memory.touched(options.workers * options.bytes):  # the agents write past the page cache
                theirs = PEERS[peer](root, power_of_two(options.piece), source, hosts)
            places = [folder_of(root, host) for host in hosts]
            theirs["verified"] = all(is_right(place / "weights.bin", manifest) for place in places)
            for place in places:
                shutil.rmtree(place)
            print(json.dumps(line(peer, told, theirs, bound, options.bytes)), flush=True)


def line(system: str, told: dict[str, Any], run: dict[str, Any], bound: float, size: int) -> dict[str, Any]:
    seconds = run.pop("last_done_s")
    return {
        "system": system,
        **told,
        "last_done_s": round(seconds, 2),
        "bound_s": round(bound, 2),
        "ratio": round(seconds / bound, 3),
        "egress_copies": round(run.pop("egress_bytes") / size, 3),
        **run,
    }


def power_of_two(piece: int) -> int:
    """The next that is not smaller: BitTorrent knows no other pieces."""
    return 1 << (piece - 1).bit_length()


def goodput(source: Host, sink: Host) -> float:
    """Bytes per second of plain TCP from one to the other."""
    receive = (
        "import socket,time;s=socket.create_server(('0.0.0.0',7000));print(flush=True);c,_=s.accept();n=0;t=0\n"
        "while (d:=c.recv(1<<18)):\n t=t or time.monotonic();n+=len(d)\n"
        "print(n/(time.monotonic()-t))"
    )
    send = f"import socket;socket.create_connection(('{sink.address}',7000)).sendall(bytes({GOODPUT_BYTES}))"
    pipe = subprocess.PIPE
    sinking = subprocess.Popen(sink.command(sys.executable, "-c", receive), stdout=pipe, text=True)
    assert sinking.stdout is not None
    sinking.stdout.readline()
    subprocess.run(source.command(sys.executable, "-c", send), check=True)
    return float(sinking.communicate()[0])


async def agents(
    root: Path, manifest: Manifest, source: Host, hosts: list[Host], lanes: int | None
) -> dict[str, Any]:
    gateway = Gateway(manifest)
    fleet = cluster.Agents(hosts, root / "agents", await gateway.start(network.HUB_ADDRESS))
    store = cluster.Store(source, root / "store")
    try:
        for host in hosts:
            fleet.start(host.name)
        await gateway.until(lambda: len(gateway.addresses) == len(hosts), LIMIT_SECONDS)
        wanted = cluster.orders(cluster.plan(sorted(fleet.hosts), lanes), store.url, gateway)
        with memory.touched(len(hosts) * AGENT_BYTES):
            cpu, start = fleet.cpu_seconds(), time.monotonic()
            await gateway.want(wanted)
            await gateway.until(lambda: len(gateway.done_at) == len(hosts), LIMIT_SECONDS)
        done = sorted(moment - start for moment in gateway.done_at.values())
        homes = [fleet.folder / f"data-{host.name}" / "models" / "rig" / "model" / "1" for host in hosts]
        return {
            "last_done_s": done[-1],
            "first_done_s": round(done[0], 2),
            "egress_bytes": store.sent(),
            "verified": all(is_right(home / "weights.bin", manifest) for home in homes),
            "tls": True,
            "manifest_requests": gateway.manifest_requests,  # the others had it from a neighbour
            "retries": sum(each.retries for each in gateway.observed.values()),
            "cpu_s_per_gb": round((fleet.cpu_seconds() - cpu) / manifest.total_bytes / len(hosts) * 1e9, 2),
        }
    finally:
        fleet.stop()
        store.stop()
        await gateway.stop()
        shutil.rmtree(root / "agents")


def simulated_ratio(hosts: list[Host], options: argparse.Namespace, rate: int) -> float:
    """Over the same bound; the simulator's own counts the rounds of the pieces too."""
    places = cluster.places([host.name for host in hosts])
    conditions = Conditions(options.bytes, options.piece, rate, rate)
    (found,) = runs_of(["mesh"], places, conditions, options.lanes, seed=1)
    seconds = float(str(found["ratio"])) * bound_ms(places, conditions) / 1000
    return round(seconds * rate / conditions.total_bytes, 3)


def is_right(path: Path, manifest: Manifest) -> bool:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest() == manifest.files[0].sha256


if __name__ == "__main__":
    main()
