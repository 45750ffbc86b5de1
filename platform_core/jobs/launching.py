"""How each strategy starts the processes of a gang and what it tells them: the one table, for form, agent and SDK."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Strategy(StrEnum):
    TORCHRUN = "torchrun"
    DEEPSPEED = "deepspeed"
    HOROVOD = "horovod"
    TENSORFLOW = "tensorflow"
    JAX = "jax"
    ROLES = "roles"
    CUSTOM = "custom"

    @classmethod
    def _missing_(cls, value: object) -> Strategy | None:
        """A way of dividing a PyTorch model is the script's business: all of them start by torchrun."""
        return cls.TORCHRUN if value in LAYOUTS else None


LAYOUTS = ("ddp", "fsdp", "hsdp", "tp", "pipeline", "accelerate", "lightning")


class Launcher(StrEnum):
    TORCHRUN = "torchrun"
    PROCESSES = "processes"  # `trainmaster.processes`, which lets the nodes exchange their addresses first
    COMMAND = "command"  # the command as it is, once a node


class Saving(StrEnum):
    """Which processes write a checkpoint."""

    ALL_RANKS = "all_ranks"  # each its part of the state, by torch.distributed
    FIRST_RANK = "first_rank"  # rank 0 the whole state
    ENGINE = "engine"  # the framework's own files, a set for each rank


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Process:
    """The place of one process in its gang. `addresses` has one of each rank, at which it may listen."""

    rank: int
    local_rank: int
    local_size: int
    node_rank: int
    nodes: int
    addresses: tuple[Address, ...] = ()
    roles: tuple[tuple[str, int], ...] = ()  # name and number of processes, in the order of their ranks
    interface: str = ""  # network interface that other nodes reach
    has_gpus: bool = False

    @property
    def size(self) -> int:
        return self.nodes * self.local_size

    @property
    def role(self) -> tuple[str, int]:
        """Name and index of its role; ('', rank) without roles."""
        return role_of(self.rank, self.roles)

    @property
    def addresses_by_role(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for rank, address in enumerate(self.addresses):
            found.setdefault(role_of(rank, self.roles)[0], []).append(str(address))
        return found


def role_of(rank: int, roles: tuple[tuple[str, int], ...]) -> tuple[str, int]:
    """The name of the role that this rank has, and its index in it."""
    index = rank
    for name, count in roles:
        if index < count:
            return name, index
        index -= count
    return "", rank


def _ranks(process: Process) -> dict[str, str]:
    """As torchrun sets them."""
    return {
        "RANK": str(process.rank),
        "WORLD_SIZE": str(process.size),
        "LOCAL_RANK": str(process.local_rank),
        "LOCAL_WORLD_SIZE": str(process.local_size),
    }


def _deepspeed(process: Process) -> dict[str, str]:
    """What its own launcher sets beside the ranks, which come from torchrun."""
    return {
        "DS_ACCELERATOR": "cuda" if process.has_gpus else "cpu",
        "LOCAL_SIZE": str(process.local_size),
        "CROSS_RANK": str(process.node_rank),
        "CROSS_SIZE": str(process.nodes),
    }


def _horovod(process: Process) -> dict[str, str]:
    """What horovodrun sets with its Gloo controller: rank 0's address is that of the rendezvous server."""
    return _ranks(process) | {
        "HOROVOD_HOSTNAME": f"node-{process.node_rank}",
        "HOROVOD_RANK": str(process.rank),
        "HOROVOD_SIZE": str(process.size),
        "HOROVOD_LOCAL_RANK": str(process.local_rank),
        "HOROVOD_LOCAL_SIZE": str(process.local_size),
        "HOROVOD_CROSS_RANK": str(process.node_rank),
        "HOROVOD_CROSS_SIZE": str(process.nodes),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": process.addresses[0].host,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(process.addresses[0].port),
        **({"HOROVOD_GLOO_IFACE": process.interface} if process.interface else {}),
    }


def _tensorflow(process: Process) -> dict[str, str]:
    workers = [str(address) for address in process.addresses]
    task = {"type": "worker", "index": process.rank}
    return _ranks(process) | {"TF_CONFIG": json.dumps({"cluster": {"worker": workers}, "task": task})}


def _jax(process: Process) -> dict[str, str]:
    """JAX reads the first itself; the script passes the others to `jax.distributed.initialize`."""
    return _ranks(process) | {
        "JAX_COORDINATOR_ADDRESS": str(process.addresses[0]),
        "JAX_NUM_PROCESSES": str(process.size),
        "JAX_PROCESS_ID": str(process.rank),
    }


def _roles(process: Process) -> dict[str, str]:
    """The last is for TensorFlow's ParameterServerStrategy, which knows the roles chief, worker and ps."""
    (name, index), addresses = process.role, process.addresses_by_role
    return _ranks(process) | {
        "TRAINMASTER_ROLE": name,
        "TRAINMASTER_ROLE_INDEX": str(index),
        "TRAINMASTER_ROLES": json.dumps(addresses),
        "TF_CONFIG": json.dumps({"cluster": addresses, "task": {"type": name, "index": index}}),
    }


@dataclass(frozen=True, slots=True)
class Method:
    """One strategy. `variables` are those that no launcher of the framework sets itself."""

    label: str
    launcher: Launcher
    saving: Saving
    variables: Callable[[Process], dict[str, str]]
    per_slot: bool = True  # a process for each slot of a node; otherwise one for all of them


METHODS: Mapping[Strategy, Method] = {
    Strategy.TORCHRUN: Method(
        "torchrun: PyTorch DDP, FSDP, tensor and pipeline parallel, Accelerate, Lightning",
        Launcher.TORCHRUN, Saving.ALL_RANKS, lambda process: {},
    ),
    Strategy.DEEPSPEED: Method("deepspeed: DeepSpeed ZeRO", Launcher.TORCHRUN, Saving.ENGINE, _deepspeed),
    Strategy.HOROVOD: Method("horovod: Horovod over Gloo or NCCL", Launcher.PROCESSES, Saving.FIRST_RANK, _horovod),
    Strategy.TENSORFLOW: Method(
        "tensorflow: one process a node, TF_CONFIG",
        Launcher.PROCESSES, Saving.FIRST_RANK, _tensorflow, per_slot=False,
    ),
    Strategy.JAX: Method(
        "jax: one process a node, jax.distributed",
        Launcher.PROCESSES, Saving.FIRST_RANK, _jax, per_slot=False,
    ),
    Strategy.ROLES: Method(
        "roles: groups with commands of their own", Launcher.PROCESSES, Saving.FIRST_RANK, _roles
    ),
    Strategy.CUSTOM: Method(
        "custom: the command as it is, once a node",
        Launcher.COMMAND, Saving.FIRST_RANK, _ranks, per_slot=False,
    ),
}  # fmt: skip
