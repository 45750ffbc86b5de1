"""What the agent asks of a launcher. The conformance suite is tests/agent/launchers/."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Protocol

from agent.launchers.accounts import Account
from agent.launchers.lease import boot_ms
from agent.work_folder import WorkFolder

CONTAINER_FOLDER = PurePosixPath("/trainmaster")  # where a container sees the work folder


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """One node's part of an attempt, ready to run: the work folder is filled and verified."""

    folder: WorkFolder
    argv: tuple[str, ...]
    cwd: Path
    output: Path  # takes stdout and stderr of `argv` itself; appended to
    environment: dict[str, str] = field(repr=False)  # all of it, secrets too
    secret_names: tuple[str, ...] = ()
    image: str = ""  # containers only
    mounted: Path | None = None  # a folder that the container sees at the same place and may read
    gpus: tuple[str, ...] = ()  # uuids of the GPUs it may use
    cpus: int = 0  # 0 is no limit
    memory_bytes: int = 0  # 0 is no limit
    account: Account | None = None  # it runs as this system user; None: as the agent's
    standby_of: str = ""  # the job whose next attempt here a standby can begin; '': none can
    leased: bool = True  # False: it goes on when the lease of this node has run out
    ordered_ms: int = field(
        default_factory=boot_ms
    )  # it runs under a lease that has held since then, or not at all


@dataclass(frozen=True, slots=True)
class NotStarted:
    """Nothing of this attempt has ever run on this node."""


@dataclass(frozen=True, slots=True)
class Alive:
    pid: int  # root of its process tree, 0 where the launcher cannot say


@dataclass(frozen=True, slots=True)
class Ended:
    """Nothing of it is left alive."""

    exit_code: int  # 128 + signal for a killed process
    stopped: bool = False  # it ended because it was asked to
    killed_after_grace: bool = False
    memory_limit_bytes: int = 0  # not 0 when it was ended for using more than this
    cut_off_ms: int = (
        0  # not 0 when it was ended because no heartbeat of this node was acknowledged for so long
    )
    vanished: bool = False  # whoever watched it is gone, so the exit code is a guess
    trouble: str = ""  # a sentence when the launcher itself failed


Status = NotStarted | Alive | Ended


class LauncherError(Exception):
    """It could not be started; the message is a sentence."""


class Launcher(Protocol):
    """Starts, watches and ends all processes of an attempt on this node.

    - An attempt is started at most once in its life, whatever the number of calls, agents and crashes in
      between: a second `start` changes nothing. A start either happens or raises LauncherError.
    - What it starts outlives the agent, also its SIGKILL. A new agent calls `adopt`, then `poll` as before.
    - How it ended is found out even when no agent is alive at that moment.
    - `stop` returns at once. The script sees the `stop` file first, then SIGTERM, after the grace SIGKILL. It
      may be called again; the shortest grace counts. What has not started or has ended ignores it.
    - When `poll` says Ended, nothing is left alive: no child, no grandchild, no daemon it left behind. How it ended
      is what the launcher saw, whatever the job wrote into its folder.
    - What is leased runs only while the node's lease holds (agent/lease.py), also when nobody calls the launcher.
    - Values of secrets are never written to disk and never on a command line.
    - All methods are safe to call from any thread, but not twice at the same time for one folder.
    """

    name: str

    def fetch(self, order: LaunchOrder) -> None:
        """Brings what the start needs from elsewhere, such as a container image. What is there stays as it is."""

    def start(self, order: LaunchOrder) -> None: ...

    def stand_by(self, order: LaunchOrder) -> None:
        """Prepares for the next attempt of the job while this one runs, where it can: that one starts faster."""

    def stand_down(self, job_id: str, seconds: float) -> None:
        """What stands by for the job waits for so long at most; 0 ends it."""

    def poll(self, folder: WorkFolder) -> Status: ...

    def stop(self, folder: WorkFolder, grace_seconds: int) -> None: ...

    def adopt(self, folder: WorkFolder) -> Status:
        """Take over what an earlier agent started; leftovers of a lost watcher are ended."""

    def secrets(self, folder: WorkFolder, names: tuple[str, ...]) -> dict[str, str]:
        """The values of these variables as its living processes have them; empty when they cannot be seen."""

    def forget(self, folder: WorkFolder) -> None:
        """Release what is kept outside the folder. Only after it ended."""
