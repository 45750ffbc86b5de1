"""The two folders of one attempt on this node. All that outlives the agent lies in them.

attempts/ID/ belongs to the job. A container sees it, and what is in it may be forged:
code/ data/ resume/ model/  fetched and verified           logs/   rank-N.log, launcher.log
work/                current folder without code    spool/  rank-N.jsonl, events of the SDK
checkpoints/         written by the script          ranks/  rank-N.exit
progress/            N, what rank N does            stacks/ rank-N.txt, its stacks after SIGUSR1
stop                 exists when it should end;     tmp/    temporary files of its processes
                     has the grace                  orders.json  orders to the running script
asks/                what its loaders read next of a dataset that is streamed

records/ID/ belongs to the agent and the shim; no container sees it, nor a job under a system user of its team:
attempt.json   what was wanted, without secret values
launch.json    the order to the shim
process.json   who runs it: pid, pgid, create_time
exit.json      how the command ended; written last
verdict.json   how it ended, as the server knows it
uplink.json    how far the server has acknowledged
system.jsonl   spool of its system series
events.jsonl   spool of what its event files hold
events.json    how far they have been read
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
# The path of a socket has 107 bytes at most, and multiprocessing appends 32 of its own, torch 36.
LONGEST_TMP = 68
SHORT_TMP = Path("/tmp")  # noqa: S108 - the one path that is short everywhere; the folder in it is of one attempt
_FOLDERS = (
    "code",
    "data",
    "work",
    "checkpoints",
    "logs",
    "spool",
    "ranks",
    "progress",
    "stacks",
    "asks",
    "counts",
)


@dataclass(frozen=True, slots=True)
class WorkFolder:
    path: Path

    @property
    def attempt_id(self) -> str:
        return self.path.name

    @property
    def records(self) -> Path:
        return self.path.parent.parent / "records" / self.path.name

    @property
    def attempt_file(self) -> Path:
        return self.records / "attempt.json"

    @property
    def launch_file(self) -> Path:
        return self.records / "launch.json"

    @property
    def process_file(self) -> Path:
        return self.records / "process.json"

    @property
    def stop_file(self) -> Path:
        return self.path / "stop"

    @property
    def exit_file(self) -> Path:
        return self.records / "exit.json"

    @property
    def verdict_file(self) -> Path:
        return self.records / "verdict.json"

    @property
    def uplink_file(self) -> Path:
        return self.records / "uplink.json"

    @property
    def system_spool(self) -> Path:
        return self.records / "system.jsonl"

    @property
    def events_spool(self) -> Path:
        return self.records / "events.jsonl"

    @property
    def events_file(self) -> Path:
        return self.records / "events.json"

    @property
    def code(self) -> Path:
        return self.path / "code"

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def stream(self) -> Path:
        """Of the agent: the job reads what is in it, and a link of the job's can lead nobody astray."""
        return self.path.parent.parent / "streams" / self.path.name

    @property
    def resume(self) -> Path:
        return self.path / "resume"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def work(self) -> Path:
        return self.path / "work"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def spool(self) -> Path:
        return self.path / "spool"

    @property
    def ranks(self) -> Path:
        return self.path / "ranks"

    @property
    def tmp(self) -> Path:
        """Folder for temporary files: below this one, or a short path elsewhere if a socket's path is too long."""
        inside = self.path / "tmp"
        if len(os.fsencode(inside)) <= LONGEST_TMP:
            return inside
        return SHORT_TMP / f"trainmaster-{self._digest}"

    @property
    def machine_id(self) -> str:
        """Unlike the attempt's id not that of another agent's part of the same gang on this machine."""
        return f"{self.attempt_id}-{self._digest}"

    @property
    def _digest(self) -> str:
        return hashlib.blake2b(os.fsencode(self.path), digest_size=8).hexdigest()

    @property
    def launcher_log(self) -> Path:
        return self.logs / "launcher.log"

    def rank_log(self, rank: int) -> Path:
        return self.logs / f"rank-{rank}.log"

    def create(self) -> None:
        self.records.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in _FOLDERS:
            (self.path / name).mkdir(parents=True, exist_ok=True)
        self.tmp.mkdir(mode=0o700, exist_ok=True)
        if self.tmp.is_symlink() or self.tmp.stat().st_uid != os.getuid():
            raise OSError(f"{self.tmp} belongs to somebody else; remove it")

    def delete(self) -> None:
        shutil.rmtree(self.tmp, ignore_errors=True)
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.rmtree(self.stream, ignore_errors=True)
        shutil.rmtree(self.records, ignore_errors=True)  # last: as long as it is there, the attempt is known


class WorkFolders:
    """All attempts that this node has on disk."""

    def __init__(self, data: Path) -> None:
        self._root, self._records = data / "attempts", data / "records"

    def of(self, attempt_id: str) -> WorkFolder:
        """Ids come from the network; one that could name another folder is refused with ValueError."""
        if not _SAFE_ID.fullmatch(attempt_id):
            raise ValueError(f'"{attempt_id}" is not an attempt id.')
        return WorkFolder(self._root / attempt_id)

    def __iter__(self) -> Iterator[WorkFolder]:
        for name in sorted({path.name for root in (self._root, self._records) for path in _folders(root)}):
            if _SAFE_ID.fullmatch(name):
                yield WorkFolder(self._root / name)


def _folders(root: Path) -> list[Path]:
    return [path for path in root.iterdir() if path.is_dir()] if root.is_dir() else []
