"""A model divided over several processes, one on each GPU: rank 0 answers callers, the others follow its calls.

torchrun starts the ranks. All of them load the model, which finds its part by `torch.distributed`. The calls travel
over gloo beside the model's own collectives, which use NCCL on GPUs.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import uuid
from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, NoReturn

import torch
import torch.distributed as dist

from trainmaster.environment import job_environment, launcher_environment
from trainmaster.serving.contract import Runtime

log = logging.getLogger(__name__)
IDLE = timedelta(days=365)  # between two requests
# Within it all ranks end a call of the model. Where one has failed in the middle, the others may wait for it for ever.
TOGETHER = timedelta(seconds=120)
LOST_CODE = 75


class RankFailed(Exception):
    """Another rank raised; its log has why."""


class Gang:
    def __init__(self) -> None:
        surroundings = job_environment()
        self.rank, self.size = surroundings.rank, surroundings.world_size
        backend = "gloo"
        if torch.cuda.is_available():
            torch.cuda.set_device(surroundings.local_rank)
            backend = "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend)
        torch.manual_seed(0)  # what ranks draw, they draw alike
        self._calls = dist.new_group(backend="gloo", timeout=IDLE)
        self._ends = dist.new_group(backend="gloo", timeout=TOGETHER)

    def send(self, *call: Any) -> None:
        self._checked(lambda: dist.broadcast_object_list([call], src=0, group=self._calls))

    def receive(self) -> Any:
        received: list[Any] = [None]
        self._checked(lambda: dist.broadcast_object_list(received, src=0, group=self._calls))
        return received[0]

    def together(self, work: Callable[[], Any]) -> Any:
        """What `work` gives, on every rank, once all have ended it. Raises where any of them raised."""
        outcome, failure = None, None
        try:
            outcome = work()
        except Exception as error:
            failure = error
        failed = torch.tensor([failure is not None], dtype=torch.int32)
        self._checked(lambda: dist.all_reduce(failed, group=self._ends))
        if failure is not None:
            raise failure
        if failed.item():
            raise RankFailed(f"{failed.item()} of the other ranks failed; see the log of this replica")
        return outcome

    def _checked(self, exchange: Callable[[], Any]) -> None:
        try:
            exchange()
        except RuntimeError as error:
            self.leave(error)

    def leave(self, error: Exception) -> NoReturn:
        """At once: callers whose connections break are answered by another replica."""
        log.error("rank %s ends, because another one is lost: %s", self.rank, error)
        sys.stdout.flush()
        os._exit(LOST_CODE)


class RankedRuntime:
    """The model as rank 0 has it: each call runs on all ranks."""

    def __init__(self, gang: Gang, own: Runtime) -> None:
        self._gang, self._own, self._streams = gang, own, count()
        self.streams, self.inputs, self.outputs = own.streams, own.inputs, own.outputs
        self._parts: dict[int, Iterator[str]] = {}
        self._closed = False

    def prepare(self, row: Any) -> Any:
        return self._own.prepare(row)

    def shape_of(self, row: Any) -> Hashable:
        return self._own.shape_of(row)

    def tokens_of(self, row: Any) -> int:
        return self._own.tokens_of(row)

    def predict(self, rows: Sequence[Any]) -> Sequence[Any]:
        outputs: Sequence[Any] = self._call("predict", rows)
        return outputs

    def stream(self, row: dict[str, Any]) -> Iterator[str]:
        number = next(self._streams)
        try:
            self._call("open", number, row)
            while (part := self._call("next", number)) is not None:
                yield part
        finally:
            if not self._closed:
                self._call("end", number)

    def close(self) -> None:
        self._closed = True
        self._gang.send("close")
        self._own.close()

    def _call(self, *call: Any) -> Any:
        self._gang.send(*call)
        return self._gang.together(partial(carry_out, self._own, self._parts, *call))


def join(load: Callable[[], Runtime]) -> Runtime | None:
    """The model of all ranks, on rank 0. The others return None when rank 0 has closed it."""
    gang = Gang()
    own = load()
    if gang.rank == 0:
        # The HTTP server raises again what has stopped it; torchrun would take that for a failure.
        signal.signal(signal.SIGTERM, lambda *_: None)
        return RankedRuntime(gang, own)
    follow(gang, own)
    return None


def follow(gang: Gang, runtime: Runtime) -> None:
    """Does what rank 0 does, until that closes the model. A failure is told by rank 0, and the next call comes."""
    for number in (signal.SIGTERM, signal.SIGINT):  # rank 0 answers what it has first
        signal.signal(number, signal.SIG_IGN)
    parts: dict[int, Iterator[str]] = {}
    while (call := gang.receive())[0] != "close":
        try:
            gang.together(partial(carry_out, runtime, parts, *call))
        except Exception as error:
            log.warning("rank %s: a call failed: %r", gang.rank, error)
    runtime.close()


def carry_out(runtime: Runtime, parts: dict[int, Iterator[str]], name: str, *arguments: Any) -> Any:
    match name, arguments:
        case "predict", [rows]:
            return runtime.predict(rows)
        case "open", [number, row]:
            parts[number] = iter(runtime.stream(row))
        case "next", [number]:
            return next(parts[number], None)
        case "end", [number]:
            close = getattr(parts.pop(number, None), "close", None)
            if close:
                close()
    return None


def start(processes: int, arguments: Sequence[str]) -> NoReturn:
    """Becomes torchrun with so many ranks of this server, on this node."""
    command = [
        *(sys.executable, "-P", "-m", "trainmaster.gang"),
        *("--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", f"--rdzv-id={uuid.uuid4().hex}"),
        *("--local-addr=127.0.0.1", f"--nproc-per-node={processes}", "--max-restarts=0"),
        *("-m", "trainmaster.rank", "-m", "trainmaster.serving", "--ranked", *arguments),
    ]
    sys.stdout.flush()
    os.execve(sys.executable, command, launcher_environment())  # noqa: S606 - no shell is wanted
