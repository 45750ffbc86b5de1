"""The folders of one attempt on this node. All that outlives the agent lies in them.

attempts/ID/, which a container may write to as well:
launch.json    the order to the shim                       code/ data/ resume/  fetched and verified
process.json   who runs it: pid, pgid, create_time         work/         current folder where there is no code
stop           exists when it should end; has the grace    checkpoints/  written by the script
exit.json      how the command ended; written last         logs/         rank-N.log, launcher.log
                                                           spool/        rank-N.jsonl, events of the SDK
                                                           ranks/        rank-N.exit
records/ID/, which no container sees:
attempt.json   what was wanted, without secret values
verdict.json   how it ended, as the server knows it
uplink.json    how far the server has acknowledged
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_SAFE_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_FOLDERS = ("code", "data", "work", "checkpoints", "logs", "spool", "ranks")


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
        return self.path / "launch.json"

    @property
    def process_file(self) -> Path:
        return self.path / "process.json"

    @property
    def stop_file(self) -> Path:
        return self.path / "stop"

    @property
    def exit_file(self) -> Path:
        return self.path / "exit.json"

    @property
    def verdict_file(self) -> Path:
        return self.records / "verdict.json"

    @property
    def uplink_file(self) -> Path:
        return self.records / "uplink.json"

    @property
    def code(self) -> Path:
        return self.path / "code"

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def resume(self) -> Path:
        return self.path / "resume"

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
    def launcher_log(self) -> Path:
        return self.logs / "launcher.log"

    def rank_log(self, rank: int) -> Path:
        return self.logs / f"rank-{rank}.log"

    def create(self) -> None:
        self.records.mkdir(parents=True, exist_ok=True)
        for name in _FOLDERS:
            (self.path / name).mkdir(parents=True, exist_ok=True)

    def delete(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.rmtree(self.records, ignore_errors=True)


class WorkFolders:
    """All attempts that this node has on disk."""

    def __init__(self, data: Path) -> None:
        self._root = data / "attempts"

    def of(self, attempt_id: str) -> WorkFolder:
        """Ids come from the network; one that could name another folder is refused with ValueError."""
        if not _SAFE_ID.fullmatch(attempt_id):
            raise ValueError(f'"{attempt_id}" is not an attempt id.')
        return WorkFolder(self._root / attempt_id)

    def __iter__(self) -> Iterator[WorkFolder]:
        if self._root.is_dir():
            for path in sorted(self._root.iterdir()):
                if path.is_dir() and _SAFE_ID.fullmatch(path.name):
                    yield WorkFolder(path)
