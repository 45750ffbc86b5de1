"""What is run for an attempt on this node: argv and environment. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath, PurePosixPath

from platform_core.jobs.launching import METHODS, Launcher, Method, Process, Strategy
from platform_core.node.wanted import Launch

RENDEZVOUS_TIMEOUT_SECONDS = 1800  # the slowest node may still be fetching its data
# What the other processes have when one has failed, to save and to leave; torchrun gives its ranks 30 seconds.
FAILED_GANG_SECONDS = 120
_OWN_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "mpirun", "horovodrun"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})


class CommandError(Exception):
    """The command cannot be run by its strategy; the message is a sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the command will find things, as it sees them: in a container that is not as the node does."""

    folder: PurePath
    python: str
    gpus: tuple[str, ...]  # uuids of its slots, empty on CPU slots
    interface: str = ""  # network interface that other nodes reach, '' to let the libraries choose
    inherited: Mapping[str, str] = field(default_factory=dict)
    tmp: PurePath | None = None  # None: as the system has it
    stream: PurePath | None = None  # of a dataset that is streamed
    gpu_share: float = 1.0  # of a GPU's memory that each slot has


def argv_of(launch: Launch, python: str) -> tuple[str, ...]:
    """The strategy's launcher around `trainmaster.rank`; a custom command runs as it is.

    Every torchrun since PyTorch 2.4 has the options here.
    """
    if not launch.command:
        raise CommandError("The command is empty.")
    match _method(launch).launcher:
        case Launcher.TORCHRUN:
            return _torchrun(launch, python)
        case Launcher.PROCESSES:
            return _processes(launch, python)
        case Launcher.COMMAND:
            return _with_python(launch.command, python)


def _method(launch: Launch) -> Method:
    try:
        return METHODS[Strategy(launch.strategy)]
    except ValueError:
        unknown = f'This agent does not know the strategy "{launch.strategy}"; update the agent.'
        raise CommandError(unknown) from None


def _torchrun(launch: Launch, python: str) -> tuple[str, ...]:
    return (
        # -P: a file of the job called like a standard module must not break the launcher itself.
        *(python, "-P", "-m", "trainmaster.gang"),
        f"--nnodes={launch.nodes}",
        f"--node-rank={launch.node_rank}",
        f"--nproc-per-node={processes_of(launch)}",
        f"--master-addr={launch.master_address}",
        f"--master-port={launch.master_port}",
        "--max-restarts=0",
        f"--rdzv-conf=timeout={RENDEZVOUS_TIMEOUT_SECONDS}",
        *("-m", "trainmaster.rank", *_script(launch.command, launch.strategy)),
    )


def _processes(launch: Launch, python: str) -> tuple[str, ...]:
    """One process a slot or a node; the SDK's launcher tells each of them what `platform_core.jobs.launching` says."""
    commands = [role.command or launch.command for role in launch.roles] or [launch.command]
    plan = {
        "strategy": launch.strategy,
        "nodes": launch.nodes,
        "node_rank": launch.node_rank,
        "local_size": processes_of(launch),
        "master": [launch.master_address, launch.master_port],
        "roles": [[role.name, role.count] for role in launch.roles],
        "commands": [_ranked(command, python, launch) for command in commands],
        "rendezvous_seconds": RENDEZVOUS_TIMEOUT_SECONDS,
        "failed_seconds": FAILED_GANG_SECONDS,
    }
    return (python, "-P", "-m", "trainmaster.processes", json.dumps(plan))


def _ranked(command: tuple[str, ...], python: str, launch: Launch) -> tuple[str, ...]:
    """A role may also be any program that the node has."""
    program = PurePosixPath(command[0]).name
    if launch.roles and not program.startswith("python") and not program.endswith(".py"):
        return command
    return (python, "-m", "trainmaster.rank", *_script(command, launch.strategy))


def is_ranked(launch: Launch) -> bool:
    """Whether each rank writes its own log; otherwise the command's output is the one log of this node."""
    return _method(launch).launcher is not Launcher.COMMAND


def can_stand_by(launch: Launch) -> bool:
    """Whether its processes can begin before they are told what to run. Those of a container begin with it."""
    return _method(launch).launcher is Launcher.TORCHRUN and not launch.container_image


def processes_of(launch: Launch) -> int:
    """How many processes the strategy starts on this node."""
    return max(1, len(launch.slots)) if _method(launch).per_slot else 1


def _script(command: tuple[str, ...], strategy: str) -> tuple[str, ...]:
    """The script and its arguments, without the interpreter that a user would write before it."""
    words = list(command)
    program = PurePosixPath(words[0]).name
    if program in _OWN_LAUNCHERS or program in _SHELLS:
        raise CommandError(
            f'The command starts with "{words[0]}", but strategy {strategy} starts one Python process a slot'
            " itself. Give the script alone (python train.py …), or choose strategy custom."
        )
    if program.startswith("python"):
        words.pop(0)
        while words and words[0] in ("-u", "-B"):
            words.pop(0)
    if not words or (words[0].startswith("-") and words[0] != "-m"):
        raise CommandError(
            f'The command "{" ".join(command)}" names no script; strategy {strategy} needs python train.py …'
            " or python -m package.module …"
        )
    return tuple(words)


def _with_python(command: tuple[str, ...], python: str) -> tuple[str, ...]:
    """A bare `python` is the interpreter of this node, as it is for every other strategy."""
    return (python, *command[1:]) if command[0] in ("python", "python3") else command


def environment_of(launch: Launch, attempt_id: str, place: Place) -> dict[str, str]:
    """Later lines win: inherited, then ours, then the user's own, then what nobody may change."""
    method, local_size = _method(launch), processes_of(launch)
    environment = dict(place.inherited)
    environment |= {
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(launch.cpus_per_gpu or 1),
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1",
    }
    if place.tmp is not None:
        environment["TMPDIR"] = str(place.tmp)
    if place.interface:
        environment |= {"GLOO_SOCKET_IFNAME": place.interface, "NCCL_SOCKET_IFNAME": place.interface}
    if launch.traceparent:
        environment["TRACEPARENT"] = launch.traceparent
    environment |= dict(launch.environment)
    environment |= dict(launch.secrets)
    environment |= {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(place.gpus),
        "TRAINMASTER_GPU_MEMORY_SHARE": f"{place.gpu_share:g}",
        "TRAINMASTER_ATTEMPT": attempt_id,
        "TRAINMASTER_JOB": launch.job_id,
        "TRAINMASTER_DIR": str(place.folder),
        "TRAINMASTER_CHECKPOINT_INTERVAL_STEPS": str(launch.checkpoint.interval_steps),
        "TRAINMASTER_CHECKPOINT_INTERVAL_SECONDS": str(launch.checkpoint.interval_ms // 1000),
        "TRAINMASTER_CHECKPOINT_KEEP": str(launch.checkpoint.keep_last),
        "TRAINMASTER_HYPERPARAMETERS": launch.hyperparameters_json or "{}",
        "MASTER_ADDR": launch.master_address,
        "MASTER_PORT": str(launch.master_port),
        "NODE_RANK": str(launch.node_rank),
        "NNODES": str(launch.nodes),
        "NPROC_PER_NODE": str(local_size),
        "TRAINMASTER_SAVING": method.saving,
    }
    if launch.checkpoint.path:
        environment["TRAINMASTER_CHECKPOINT_PATH"] = launch.checkpoint.path
    if (
        launch.parallel.is_given
    ):  # with as many copies as this attempt has GPUs for: an elastic job changes that
        gpus = launch.nodes * max(1, len(launch.slots))
        environment["TRAINMASTER_PARALLEL"] = launch.parallel.sized(gpus).text
    environment |= _corruption_check(launch)
    if launch.seed is not None:
        environment["TRAINMASTER_SEED"] = str(launch.seed)
    if launch.resume is not None:
        environment["TRAINMASTER_RESUME"] = str(place.folder / "resume")
    if launch.model is not None:
        environment["TRAINMASTER_MODEL"] = str(place.folder / "model")
    environment |= _data(launch, place)
    if method.launcher is not Launcher.PROCESSES:  # which knows the addresses of the processes, too
        first = launch.node_rank * local_size
        place_in_gang = Process(
            first, 0, local_size, launch.node_rank, launch.nodes, has_gpus=bool(place.gpus)
        )
        environment |= method.variables(place_in_gang)
    if method.launcher is Launcher.COMMAND:
        environment["TRAINMASTER_SLOTS"] = ",".join(map(str, launch.slots))
    return environment


def _data(launch: Launch, place: Place) -> dict[str, str]:
    if place.stream is not None:
        return {"TRAINMASTER_DATA": str(place.stream / "files"), "TRAINMASTER_STREAM": str(place.stream)}
    return {"TRAINMASTER_DATA": str(place.folder / "data")} if launch.dataset is not None else {}


def _corruption_check(launch: Launch) -> dict[str, str]:
    check = launch.corruption_check
    if not check.every_steps:
        return {}
    return {
        "TRAINMASTER_CORRUPTION_CHECK_STEPS": str(check.every_steps),
        "TRAINMASTER_CORRUPTION_TOLERANCE_PPM": str(check.tolerance_ppm),
    }


def output_of(launch: Launch, logs: Path) -> Path:
    return logs / ("launcher.log" if is_ranked(launch) else f"rank-{launch.node_rank}.log")
