"""Agents on the hosts of a network, and one model on its way to them."""

from __future__ import annotations

import datetime
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from benchmarks.rig.gateway import Gateway
from benchmarks.rig.network import HUB_ADDRESS, Host, Network
from platform_core.distribution.planning import mesh
from platform_core.distribution.planning.forest import STORE, Forest, node_plans
from platform_core.distribution.planning.routes import Place
from trainmaster_wire.agent.v1 import session_pb2
from webapp.operations import certs

Order = session_pb2.DeploymentWanted
RACK = 8  # nodes
DEPLOYMENT = "dep-rig"


class Store:
    def __init__(self, host: Host, folder: Path) -> None:
        command = host.command(sys.executable, "-m", "benchmarks.rig.store", str(folder), host.address)
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self.url = f"http://{host.address}:{self._ask('')}"

    def sent(self) -> int:
        return int(self._ask("sent\n"))

    def behave(self, how: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"behave {how}\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


class Agents:
    """Real agents, one a host, each with a certificate of its own; killed one by one, started again as they were."""

    def __init__(self, hosts: Iterable[Host], folder: Path, server: str) -> None:
        self.hosts = {host.name: host for host in hosts}
        self.folder, self._server = folder, server
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        today = datetime.datetime.now(datetime.UTC)
        authority = certs.make_authority(today)
        self.pids_seen: list[int] = []
        folder.mkdir(parents=True, exist_ok=True)
        certs.write_pair(folder, "ca", authority)
        for host in self.hosts.values():
            pair = certs.issue_node(authority, (host.address, host.name), today, 2)
            certs.write_pair(folder, host.name, pair)

    def start(self, name: str, *flags: str) -> None:
        host, folder = self.hosts[name], self.folder
        command = host.command(
            sys.executable, "-m", "agent.main", "--server", self._server, "--insecure", "--token", "rig",
            "--data", str(folder / f"data-{name}"), "--hostname", name, "--address", host.address,
            "--slots", "1", "--ca", str(folder / "ca.crt"), "--certificate", str(folder / f"{name}.crt"),
            "--key", str(folder / f"{name}.key"), *flags,
        )  # fmt: skip
        with (folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, stderr=log, env=_environment())

    def signal(self, name: str, number: signal.Signals) -> None:
        self._processes[name].send_signal(number)

    def kill(self, name: str) -> None:
        self._processes[name].kill()
        self._processes[name].wait()

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def cpu_seconds(self) -> float:
        """Of all that run."""
        ticks = 0
        for process in self._processes.values():
            fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


def _environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1"}


def places(names: list[str]) -> tuple[Place, ...]:
    return tuple(Place(name, f"rack-{number // RACK}") for number, name in enumerate(names))


def plan(names: list[str], lanes: int | None = None) -> Forest:
    return mesh.plan(places(names), lanes)


def orders(forest: Forest, url: str, gateway: Gateway) -> dict[str, session_pb2.DeploymentWanted]:
    artifact = session_pb2.ArtifactReference(
        manifest_id=gateway.manifest.id,
        source_url=url,
        etags=[f'"{file.size}"' for file in gateway.manifest.files],  # as the store calls them
    )
    found = {}
    for each in node_plans(forest):
        named = sorted({source for lane in each.lanes for source in lane if source != STORE})
        found[each.node] = session_pb2.DeploymentWanted(
            deployment_id=DEPLOYMENT,
            model="rig/model",
            version="1",
            artifact=artifact,
            transfer_token="token",
            peers=[session_pb2.Peer(node_id=name, address=gateway.addresses[name]) for name in named],
            lanes=[session_pb2.Lane(sources=lane) for lane in each.lanes],
            slower=sorted(each.slower),
        )
    return found


def make_hosts(network: Network, workers: int) -> list[Host]:
    return [network.add(f"n{number:02}") for number in range(workers)]


def server_address() -> str:
    return HUB_ADDRESS
