"""TensorBoard's event files of an attempt, read while they grow into a spool of their own.

The spool and how far each file was read belong together: what the spool has beyond the length in `events.json` was
never sent, so it is cut off and those events are read again.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from agent.files import read_json, write_atomically
from agent.job_files import JobPath
from agent.work_folder import WorkFolder
from platform_core.errors import TrainmasterError
from trainmaster.event_files.names import FILE_PREFIX, folder_of, prefix_of, written_at
from trainmaster.reader.pool import Lacking, Unreadable, read

FOLDERS = ("work", "code", "checkpoints")  # of the attempt, where scripts write
MOST_FILES = 100
READ_EVERY_SECONDS = 2.0
_LOOK_EVERY_SECONDS = 5.0
_MOST_ENTRIES = 20_000  # of each folder, in one search
_READ_SHARE, _LOOK_SHARE = 4, 200  # reading pauses for 4 times as long as it took, searching for 200 times
_PIECE_BYTES = 256 * 1024  # of one file
_PIECES_A_STEP = 8
_BLOCK = 512  # of st_blocks, whatever the file system


@dataclass(slots=True)
class _File:
    offset: int = 0
    is_damaged: bool = False  # nothing after `offset` can be read
    plugins: dict[str, str] = field(default_factory=dict)  # of tags, which only their first event names


class EventFiles:
    """Called by one thread at a time; raises OSError when the disk is full."""

    def __init__(self, folder: WorkFolder, say: Callable[[str], None], cap_bytes: int) -> None:
        """`cap_bytes`: of the spool that waits on disk to be sent; beyond it reading waits."""
        self._folder, self._say, self._cap_bytes = folder, say, cap_bytes
        self._files: dict[str, _File] = {}  # by name beneath the folder of the attempt
        self._main: str | None = None  # folder of the first file: its series have no prefix
        self._spool_bytes = 0
        self._read_at = self._look_at = 0.0
        self._is_behind, self._ended = False, False
        self._load()

    @property
    def idle(self) -> bool:
        """An attempt that has ended left nothing that is not in the spool."""
        return self._ended and not self._is_behind

    def step(self, now: float, ended: bool) -> None:
        self._cut_spool()
        last_look = ended and not self._ended
        if (now < self._read_at and not last_look) or self._unsent_bytes() >= self._cap_bytes:
            return
        began = monotonic()
        if now >= self._look_at or last_look:
            self._look()
            self._look_at = now + max(_LOOK_EVERY_SECONDS, _LOOK_SHARE * (monotonic() - began))
        self._ended = ended
        if self._files:
            self._read_files()
        pause = 0.0 if self._is_behind else READ_EVERY_SECONDS
        self._read_at = now + max(pause, _READ_SHARE * (monotonic() - began))

    def _look(self) -> None:
        names = [
            f"{folder}/{name}"
            for folder in FOLDERS
            for name in JobPath(self._folder.path, folder).named(FILE_PREFIX, _MOST_ENTRIES)
        ]
        since = self._started_at()
        fresh = [name for name in names if name not in self._files and (written_at(name) or since) >= since]
        if fresh and self._main is None:
            self._main = folder_of(
                min(fresh, key=lambda name: (written_at(name) or 0, name.count("/"), name))
            )
        if len(self._files) + len(fresh) > MOST_FILES > len(self._files):
            self._say(
                f"It writes more than {MOST_FILES} event files of TensorBoard; the others are not read."
            )
        for name in fresh[: max(0, MOST_FILES - len(self._files))]:
            self._files[name] = _File()

    def _started_at(self) -> int:
        """In seconds. Older event files came with the code."""
        try:
            return int(self._folder.attempt_file.stat().st_mtime)
        except OSError:
            return 0

    def _read_files(self) -> None:
        lines: list[bytes] = []
        before = [(file.offset, file.is_damaged) for file in self._files.values()]
        pieces, self._is_behind = _PIECES_A_STEP, False
        for name, file in self._files.items():
            while not file.is_damaged and (more := self._read(name, file, lines)):
                pieces -= 1
                if not pieces:
                    self._is_behind = more
                    break
            if not pieces:
                break
        if before != [(file.offset, file.is_damaged) for file in self._files.values()]:
            self._keep(lines)

    def _read(self, name: str, file: _File, lines: list[bytes]) -> bool:
        """One piece; whether there was one."""
        try:
            part = self._parsed(name, file, _PIECE_BYTES)
            if part is not None and not part["records"] and part["needs"] > _PIECE_BYTES:
                part = self._parsed(name, file, part["needs"])
        except (Unreadable, Lacking) as error:
            file.is_damaged = True
            self._say(f"{error}. That is at byte {file.offset:,}; the rest of it is not read.")
            return False
        except TrainmasterError:  # no reader is free
            self._is_behind = True
            return False
        if part is None:
            return False
        lines += (line.encode() for line in part["lines"])
        file.plugins = part["plugins"]
        file.offset += part["length"]
        if part["is_corrupt"]:
            file.is_damaged = True
            self._say(
                f"The event file {name} is damaged at byte {file.offset:,}; the rest of it is not read."
            )
        return bool(part["length"] > 0)

    def _parsed(self, name: str, file: _File, size: int) -> dict[str, Any] | None:
        """Of so many bytes, where there are any."""
        data = JobPath(self._folder.path, name).read(file.offset, size)
        if not data:
            return None
        prefix = prefix_of(folder_of(name), self._main or "")
        what = f"The event file {name}"
        found: dict[str, Any] = read(
            "agent.uplink.event_lines:parsed", what, data, prefix=prefix, plugins=file.plugins
        )
        return found

    def _unsent_bytes(self) -> int:
        """Blocks that were sent are given back, so those that the file has are still to be sent."""
        try:
            return self._folder.events_spool.stat().st_blocks * _BLOCK
        except OSError:
            return 0

    def _cut_spool(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            if self._folder.events_spool.stat().st_size > self._spool_bytes:
                os.truncate(self._folder.events_spool, self._spool_bytes)

    def _keep(self, lines: list[bytes]) -> None:
        if not self._folder.records.is_dir():
            return  # the attempt has been forgotten meanwhile
        with open(self._folder.events_spool, "ab") as spool:
            spool.writelines(lines)
        spool_bytes = self._spool_bytes + sum(map(len, lines))
        files = {name: asdict(file) for name, file in self._files.items()}
        document = {"main": self._main, "spool_bytes": spool_bytes, "files": files}
        write_atomically(self._folder.events_file, json.dumps(document).encode())
        self._spool_bytes = spool_bytes

    def _load(self) -> None:
        """Damaged, or of another version: all of it is read and sent again, which changes nothing on the server."""
        document: dict[str, Any] = read_json(self._folder.events_file) or {}
        with contextlib.suppress(TypeError, ValueError, AttributeError, KeyError):
            files = {str(name): _File(**file) for name, file in document["files"].items()}
            self._main, self._spool_bytes = document["main"], int(document["spool_bytes"])
            self._files = files
