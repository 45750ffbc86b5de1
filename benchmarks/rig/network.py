"""Hosts as network namespaces around one switch, each behind a link of a given rate in both directions."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass

HUB_ADDRESS = "10.77.0.1"
PORT_BUFFER = "640kb"  # ten packets; a shallow switch has more for a port


class NotHere(SystemExit):
    """This machine cannot do it; the sentence says what is missing."""


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    namespace: str
    address: str
    port: str  # the switch's end of its cable

    def command(self, *arguments: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *arguments]


def require() -> None:
    if os.geteuid() != 0:
        raise NotHere("Network namespaces need root: run this as root, or in a container with CAP_NET_ADMIN.")
    for tool in ("ip", "tc"):
        if shutil.which(tool) is None:
            raise NotHere(f"The program `{tool}` is missing: install iproute2.")
    probe = f"tmprobe{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode:
        raise NotHere("This machine does not allow network namespaces (`ip netns add` failed).")
    subprocess.run(["ip", "netns", "del", probe], check=True)


def inside_hub() -> bool:
    """Whether this process runs at the switch already; `enter_hub` starts it again there."""
    return "TRAINMASTER_RIG_HUB" in os.environ


def enter_hub(module: str) -> int:
    """Runs this command again inside a namespace of its own, and removes all of them afterwards."""
    require()
    hub = f"tm{os.getpid()}"
    _run("ip", "netns", "add", hub)
    try:
        environment = {**os.environ, "TRAINMASTER_RIG_HUB": hub}
        command = ["ip", "netns", "exec", hub, sys.executable, "-m", module, *sys.argv[1:]]
        return subprocess.run(command, env=environment).returncode
    finally:
        listed = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout.split()
        for namespace in listed:
            if namespace == hub or namespace.startswith(f"{hub}-"):
                subprocess.run(["ip", "netns", "del", namespace], capture_output=True)


class Network:
    """Made by a process inside the hub, where the switch is; `enter_hub` removes it."""

    def __init__(self, rate_mbit: int) -> None:
        self.hub = os.environ["TRAINMASTER_RIG_HUB"]
        self._rate_mbit = rate_mbit
        self.hosts: dict[str, Host] = {}
        _run("ip", "link", "set", "lo", "up")
        # The switch is no firewall.
        _set("net.bridge.bridge-nf-call-iptables", "0")
        _run("ip", "link", "add", "switch", "type", "bridge")
        _run("ip", "address", "add", f"{HUB_ADDRESS}/24", "dev", "switch")
        _run("ip", "link", "set", "switch", "up")

    def add(self, name: str) -> Host:
        number = len(self.hosts) + 2
        host = Host(name, f"{self.hub}-{name}", f"10.77.0.{number}", f"port{number}")
        _run("ip", "netns", "add", host.namespace)
        _run("ip", "link", "add", host.port, "type", "veth", "peer", "name", "eth0", "netns", host.namespace)
        _run("ip", "link", "set", host.port, "master", "switch", "up")
        inside = ["ip", "-n", host.namespace]
        _run(*inside, "address", "add", f"{host.address}/24", "dev", "eth0")
        _run(*inside, "link", "set", "eth0", "up")
        _run(*inside, "link", "set", "lo", "up")
        # Slow flows would send two segments at a time, and a small machine would do nothing but forward those. With
        # 44 a packet is as long as network cards make them, 64 KB; the bucket must hold one whole, or tbf splits it.
        there = ["ip", "netns", "exec", host.namespace]
        _set("net.ipv4.tcp_min_tso_segs", "44", *there)
        _set("net.ipv4.tcp_congestion_control", "reno", *there)  # BBR paces each flow by timers of its own
        self.hosts[name] = host
        self.shape(host, self._rate_mbit)
        return host

    def shape(self, host: Host, rate_mbit: float) -> None:
        _run("tc", "qdisc", "replace", "dev", host.port, *_bucket(rate_mbit))
        self.shape_sending(host, rate_mbit)

    def shape_sending(self, host: Host, rate_mbit: float) -> None:
        """What it takes stays as it was."""
        _run("tc", "-n", host.namespace, "qdisc", "replace", "dev", "eth0", *_bucket(rate_mbit))

    def cut(self, host: Host) -> None:
        _run("ip", "link", "set", host.port, "down")

    def mend(self, host: Host) -> None:
        _run("ip", "link", "set", host.port, "up")


def _bucket(rate_mbit: float) -> tuple[str, ...]:
    return ("root", "tbf", "rate", f"{int(rate_mbit * 1000)}kbit", "burst", "128kb", "limit", PORT_BUFFER)


def _set(name: str, value: str, *where: str) -> None:
    """Best effort: older kernels lack some of them."""
    subprocess.run([*where, "sysctl", "-q", "-w", f"{name}={value}"], capture_output=True)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}: {done.stderr.strip()}")
