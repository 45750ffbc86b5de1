"""Starts the processes of one node for the strategies that have no torchrun: `python -m trainmaster.processes PLAN`.

The nodes exchange the addresses of their processes first; what each process is told stands in
`platform_core.jobs.launching`. The first process that fails ends the others, and its rank stands in the log in
torchrun's words, where the agent looks for the cause.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from platform_core.jobs.launching import METHODS, Address, Process, Strategy, role_of
from trainmaster.environment import job_environment, launcher_environment
from trainmaster.exchange import ExchangeFailed, exchange

LOOK_EVERY_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """What the agent decided; JSON in the one argument."""

    strategy: str
    nodes: int
    node_rank: int
    local_size: int
    master: tuple[str, int]
    roles: tuple[tuple[str, int], ...]
    commands: tuple[tuple[str, ...], ...]  # one a role, or one for all
    rendezvous_seconds: float
    failed_seconds: float

    @classmethod
    def read(cls, text: str) -> Plan:
        plan = json.loads(text)
        plan["roles"] = tuple((name, count) for name, count in plan["roles"])
        return cls(**plan)

    def command(self, rank: int) -> tuple[str, ...]:
        names = [name for name, _ in self.roles]
        return self.commands[names.index(role_of(rank, self.roles)[0]) if names else 0]


class Gang:
    """The processes of this node. `stop` is called by signals."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.folder = job_environment().folder or Path.cwd()
        self.running: dict[int, subprocess.Popen[bytes]] = {}
        self.begun = self.stopping = False
        self.failed: tuple[int, int] | None = None  # rank and exit code of the first

    def stop(self, *_: object) -> None:
        self.stopping = True
        if not self.begun:
            sys.exit(143)
        self._signal(signal.SIGTERM)

    def start(self, addresses: list[Address]) -> None:
        self.begun = True
        plan, surroundings = self.plan, launcher_environment()
        gpus = [gpu for gpu in surroundings.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
        (self.folder / "logs").mkdir(exist_ok=True)
        for local_rank in range(plan.local_size):
            if self.stopping:
                break
            process = Process(
                rank=plan.node_rank * plan.local_size + local_rank,
                local_rank=local_rank,
                local_size=plan.local_size,
                node_rank=plan.node_rank,
                nodes=plan.nodes,
                addresses=tuple(addresses),
                roles=plan.roles,
                interface=surroundings.get("GLOO_SOCKET_IFNAME", ""),
                has_gpus=bool(gpus),
            )
            variables = surroundings | METHODS[Strategy(plan.strategy)].variables(process)
            if plan.roles and local_rank < len(gpus):  # a server must not take the memory of a worker's GPU
                variables["CUDA_VISIBLE_DEVICES"] = gpus[local_rank]
            self._begin(process.rank, variables)
        if self.stopping:
            self._signal(signal.SIGTERM)  # the last may have begun as the signal came

    def _begin(self, rank: int, variables: dict[str, str]) -> None:
        command = self.plan.command(rank)
        with (self.folder / "logs" / f"rank-{rank}.log").open("ab") as log:
            try:
                # A session of its own: signals to the group of this process do not reach it.
                self.running[rank] = subprocess.Popen(
                    command, env=variables, stdout=log, stderr=log, start_new_session=True
                )
            except OSError as error:
                log.write(f"{command[0]}: {error.strerror}\n".encode())
                self._ended(rank, 127)

    def wait(self) -> int:
        """Until all have ended: 0, or the exit code of the first that failed."""
        kill_at = float("inf")
        while self.running:
            for rank, process in list(self.running.items()):
                if (code := process.poll()) is not None:
                    del self.running[rank]
                    self._ended(rank, code)
            if self.failed and kill_at == float("inf"):
                kill_at = time.monotonic() + self.plan.failed_seconds
                self._signal(signal.SIGTERM)
            elif time.monotonic() > kill_at:
                self._signal(signal.SIGKILL)
            time.sleep(LOOK_EVERY_SECONDS)
        code = self.failed[1] if self.failed else 0
        return 128 - code if code < 0 else code

    def _ended(self, rank: int, code: int) -> None:
        """`trainmaster.rank` leaves this file itself; other programs do not."""
        file = self.folder / "ranks" / f"rank-{rank}.exit"
        if code >= 0 and not file.exists():
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps({"exit_code": code, "error": ""}))
        if code and not self.failed and not self.stopping:
            self.failed = rank, code
            local = rank % self.plan.local_size
            print(f"  rank      : {rank} (local_rank: {local})\n  exitcode  : {code}", flush=True)  # noqa: T201

    def _signal(self, number: signal.Signals) -> None:
        for process in self.running.values():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, number)


def main(arguments: list[str]) -> int:
    plan = Plan.read(arguments[0])
    gang = Gang(plan)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, gang.stop)
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.create_server(("", 0))) for _ in range(plan.local_size)]
        ports = [probe.getsockname()[1] for probe in probes]
        if plan.strategy == Strategy.HOROVOD and plan.node_rank == 0:
            ports[0] = _horovod_rendezvous(plan)
        try:
            addresses = exchange(
                job_environment().attempt, ports, plan.node_rank, plan.nodes, Address(*plan.master),
                plan.rendezvous_seconds,
            )  # fmt: skip
        except ExchangeFailed as error:
            sys.stderr.write(f"{error}\n")
            return 1
    gang.start(addresses)
    return gang.wait()


def _horovod_rendezvous(plan: Plan) -> int:
    """Horovod's own server, in this process, as horovodrun has it. Returns its port."""
    try:
        hosts: Any = importlib.import_module("horovod.runner.common.util.hosts")
        http: Any = importlib.import_module("horovod.runner.http.http_server")
    except ImportError:
        sys.exit("ImportError: this Python has no horovod; install it there, or use an image that has it.")
    places = ",".join(f"node-{rank}:{plan.local_size}" for rank in range(plan.nodes))
    server = http.RendezvousServer()
    port = int(server.start())
    server.init(hosts.get_host_assignments(hosts.parse_hosts(places), plan.nodes * plan.local_size))
    return port


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
