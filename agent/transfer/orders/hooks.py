"""The commands that a rollout may run on this node: files in one folder that its operator filled."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from platform_core.distribution.rollouts.canaries import COMMAND

TAIL_BYTES = 4_000  # of what a command says, the end is kept
NOT_ALLOWED, NOT_FOUND, TOO_LONG = 126, 127, 124  # as the shell and timeout(1) number them


@dataclass(frozen=True, slots=True)
class Ended:
    exit_code: int
    output: str


class Hooks:
    """`run` never raises: what goes wrong is an exit code with a sentence. Nothing runs without a folder."""

    def __init__(self, folder: Path | None, environment: Mapping[str, str]) -> None:
        self._folder, self._environment = folder, environment

    async def run(self, name: str, variables: Mapping[str, str], seconds: float) -> Ended:
        """Without a shell and without arguments; `variables` are added to the environment."""
        if self._folder is None:
            return Ended(
                NOT_ALLOWED, f"This agent runs no hooks, {name} neither: start it with --hooks FOLDER"
            )
        if not COMMAND.fullmatch(name):
            return Ended(NOT_ALLOWED, f'"{name}" is no name of a command')
        path = self._folder / name
        if refusal := await asyncio.to_thread(_refusal, path):
            return refusal
        try:
            process = await asyncio.create_subprocess_exec(
                path, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT, cwd=self._folder, env={**self._environment, **variables},
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            return Ended(NOT_ALLOWED, f"{path} cannot be run: {error.strerror or error}")
        tail = bytearray()
        ended = False
        try:
            async with asyncio.timeout(seconds):
                await _read(process, tail)  # a child that outlives it and keeps its output open counts as it
                code = await process.wait()
            ended = True
        except TimeoutError:
            tail += f"\n{name} had not ended after {seconds:g} s and was killed".encode()
            code = TOO_LONG
        finally:
            if not ended:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                await process.wait()  # or it stays behind as a zombie where the agent stops
        # As a shell reports a process that a signal ended.
        return Ended(
            code if code >= 0 else 128 - code, bytes(tail[-TAIL_BYTES:]).decode(errors="replace").strip()
        )


def _refusal(path: Path) -> Ended | None:
    """Whoever may write the file or its folder could run anything as the agent's user."""
    try:
        mode = path.stat().st_mode
        open_to_all = (mode | path.parent.stat().st_mode) & stat.S_IWOTH
    except OSError:
        return Ended(NOT_FOUND, f"There is no {path}; the operator of this node can put it there")
    if open_to_all:
        return Ended(NOT_ALLOWED, f"{path} or its folder can be written by everybody; chmod o-w it")
    if not (stat.S_ISREG(mode) and os.access(path, os.X_OK)):
        return Ended(NOT_ALLOWED, f"{path} cannot be executed; chmod +x it")
    return None


async def _read(process: asyncio.subprocess.Process, tail: bytearray) -> None:
    assert process.stdout is not None
    while part := await process.stdout.read(4096):
        tail += part
        del tail[:-TAIL_BYTES]
