"""Runs parsers of what people bring in a few processes that may die: `read("module:function", …)`.

A native parser can be made to end its process, and any parser to take its memory or its time. So none of them runs in
the web process, the gateway, a worker or the agent. A reader is started by exec, without their environment, is used
again, and is replaced after CALLS calls, when it dies, and when a limit ends it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.units import format_bytes
from trainmaster.reader import child

CALLS = 200
MEMORY_BYTES = 2**30  # of addresses; the libraries of Arrow take a half
OUTPUT_BYTES = 64 * 2**20
FILE_BYTES = 2 * 2**30  # of a file that a reader writes
_PROGRAM = str(Path(child.__file__).resolve())


@dataclass(frozen=True, slots=True)
class Limits:
    cpu_seconds: int = 10
    wall_seconds: float = 30.0  # also of waiting for a reader that is free
    output_bytes: int = OUTPUT_BYTES


class Unreadable(TrainmasterError):
    """The content is not what its kind asks for, or reading it went beyond a limit."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__("file_unreadable", what=what, why=why)
        self.why = why


class Stopped(Unreadable):
    """Reading it ended the reader, or went beyond a limit."""


class Lacking(Exception):
    """The library that reads it is not installed."""


class _Gone(Exception):
    pass


@dataclass(slots=True)
class _Reader:
    process: subprocess.Popen[bytes]
    channel: socket.socket
    calls: int = 0

    @property
    def is_fit(self) -> bool:
        return self.calls < CALLS and self.process.poll() is None

    def end(self) -> int:
        self.channel.close()
        self.process.kill()
        return self.process.wait()


def _start(memory_bytes: int) -> _Reader:
    ours, theirs = socket.socketpair()
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-P", _PROGRAM],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            env={"PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path)), "LC_ALL": "C.UTF-8"},
        )
    child.send(ours, {"RLIMIT_AS": memory_bytes, "RLIMIT_FSIZE": FILE_BYTES, "RLIMIT_CORE": 0})
    return _Reader(process, ours)


@dataclass(slots=True)
class Pool:
    """Any thread may call it. Up to `size` readers, each started when it is needed first."""

    size: int = 2
    memory_bytes: int = MEMORY_BYTES
    _free: list[_Reader] = field(default_factory=list)
    _places: threading.BoundedSemaphore = field(init=False)

    def __post_init__(self) -> None:
        self._forget()
        os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """The readers of a parent are not those of its fork."""
        self._free, self._places = [], threading.BoundedSemaphore(self.size)

    def read(
        self, function: str, what: str, data: bytes = b"", limits: Limits | None = None, **arguments: Any
    ) -> Any:
        """What the function "module:name" returns, called with `data` and `arguments`, all of them as JSON.

        Raises Unreadable, in whose sentence the content is called `what`, unavailable where no reader becomes free, and
        Lacking.
        """
        limits = limits or Limits()
        until = time.monotonic() + limits.wall_seconds
        if not self._places.acquire(timeout=limits.wall_seconds):
            raise TrainmasterError("unavailable", what="a process that reads files")
        try:
            request = {"function": function, "arguments": arguments, "cpu_seconds": limits.cpu_seconds}
            answer = self._answer(request, data, limits, until, what)
        finally:
            self._places.release()
        if "lacks" in answer:
            raise Lacking(f"{what} cannot be read: the package {answer['lacks']} is not installed here")
        if "memory" in answer:
            raise Stopped(
                what, f"reading it takes more memory than the {format_bytes(self.memory_bytes)} allowed"
            )
        if "refused" in answer:
            raise Unreadable(what, answer["refused"])
        return answer["value"]

    def _answer(
        self, request: dict[str, Any], data: bytes, limits: Limits, until: float, what: str
    ) -> dict[str, Any]:
        while True:
            reader = self._taken()
            try:
                answer = _asked(reader, request, data, limits, until)
            except (TimeoutError, child.TooLong, ValueError, RecursionError) as error:
                reader.end()
                raise Stopped(what, _beyond(error, limits)) from None
            except _Gone:
                if not (code := reader.process.wait()):
                    reader.end()
                    continue  # it had been idle for so long that it ended while it was asked
                reader.end()
                raise Stopped(what, _death(code, limits)) from None
            except BaseException:
                reader.end()
                raise
            reader.calls += 1
            self._free.append(reader)
            return answer

    def _taken(self) -> _Reader:
        with contextlib.suppress(IndexError):
            while True:
                reader = self._free.pop()  # the one that was used last: what is not needed becomes idle
                if reader.is_fit:
                    return reader
                reader.end()
        try:
            return _start(self.memory_bytes)
        except OSError as error:
            raise TrainmasterError("unavailable", what="a process that reads files") from error

    def close(self) -> None:
        while self._free:
            self._free.pop().end()


def _asked(
    reader: _Reader, request: dict[str, Any], data: bytes, limits: Limits, until: float
) -> dict[str, Any]:
    def wait_no_longer() -> None:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        reader.channel.settimeout(left)

    try:
        wait_no_longer()
        child.send(reader.channel, request, data)
        received = child.receive(reader.channel, limits.output_bytes, wait_no_longer)
    except ConnectionError:
        received = None
    if received is None:
        raise _Gone
    answer = received[0]
    if not isinstance(answer, dict):
        raise ValueError
    return answer


def _beyond(error: Exception, limits: Limits) -> str:
    if isinstance(error, TimeoutError):
        return f"reading it takes more than the {limits.wall_seconds:g} seconds allowed"
    if isinstance(error, child.TooLong):
        return f"what is read of it has more than the {format_bytes(limits.output_bytes)} allowed"
    return "its reader gave no answer that can be understood"


def _death(code: int, limits: Limits) -> str:
    if code == -signal.SIGXCPU:
        return f"reading it takes more than the {limits.cpu_seconds} seconds of processor time allowed"
    try:
        by = signal.Signals(-code).name
    except ValueError:
        by = f"exit code {code}"
    return f"it ends the process that reads it ({by}); it is damaged, or needs more memory than is allowed"


POOL = Pool()
read = POOL.read
