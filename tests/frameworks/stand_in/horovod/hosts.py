"""As horovod.runner.common.util.hosts of Horovod 0.28."""

from dataclasses import dataclass


@dataclass
class HostInfo:
    hostname: str
    slots: int


@dataclass
class SlotInfo:
    hostname: str
    rank: int
    size: int


def parse_hosts(hosts_string: str) -> list[HostInfo]:
    pairs = (host.split(":") for host in hosts_string.split(","))
    return [HostInfo(name, int(slots)) for name, slots in pairs]


def get_host_assignments(
    hosts: list[HostInfo], min_num_proc: int, max_num_proc: int | None = None
) -> list[SlotInfo]:
    names = [host.hostname for host in hosts for _ in range(host.slots)]
    assert len(names) >= min_num_proc
    return [SlotInfo(name, rank, len(names)) for rank, name in enumerate(names)]
