"""Samples of the stacks of all threads of this process, and the flame graph that they add up to."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import PurePath
from types import FrameType

EVERY_SECONDS = 0.005
OWN_THREADS = "trainmaster-"
MOST_DEPTH, MOST_STACKS = 120, 20_000
Stack = tuple[str, ...]  # outermost first: the thread, then its functions


@dataclass(frozen=True, slots=True)
class Function:
    function: str
    own: int  # samples in which it was innermost
    total: int  # samples that have it anywhere


@dataclass(frozen=True, slots=True)
class Samples:
    stacks: Counter[Stack]
    samples: int  # moments that were looked at

    def folded(self) -> str:
        """A line for each stack, as flamegraph.pl and speedscope read it."""
        return "".join(f"{';'.join(stack)} {count}\n" for stack, count in sorted(self.stacks.items()))

    def functions(self) -> list[Function]:
        own: Counter[str] = Counter()
        total: Counter[str] = Counter()
        for stack, count in self.stacks.items():
            own[stack[-1]] += count
            for name in set(stack[1:]):
                total[name] += count
        lines = [Function(name, own[name], count) for name, count in total.items()]
        return sorted(lines, key=lambda line: (-line.own, -line.total, line.function))


class Sampler:
    """`stop` ends the thread that samples."""

    def __init__(self, every_seconds: float = EVERY_SECONDS) -> None:
        self._every, self._stopping = every_seconds, threading.Event()
        self._stacks: Counter[Stack] = Counter()
        self._samples = 0
        self._thread = threading.Thread(target=self._run, name="trainmaster-sampler", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> Samples:
        self._stopping.set()
        self._thread.join()
        return Samples(self._stacks, max(1, self._samples))

    def _run(self) -> None:
        """Threads of the SDK, this one among them, only wait, and say nothing about the script."""
        while True:
            names = {thread.ident: thread.name for thread in threading.enumerate()}
            for ident, frame in sys._current_frames().items():
                if not (name := names.get(ident, "a thread")).startswith(OWN_THREADS):
                    self._count((name, *_functions(frame)))
            self._samples += 1
            if self._stopping.wait(self._every):
                return

    def _count(self, stack: Stack) -> None:
        stack = tuple(name.replace(";", ",").replace("\n", " ") for name in stack)
        if stack in self._stacks or len(self._stacks) < MOST_STACKS:
            self._stacks[stack] += 1


def _functions(frame: FrameType | None) -> list[str]:
    names: list[str] = []
    while frame is not None and len(names) < MOST_DEPTH:
        code = frame.f_code
        names.append(
            f"{code.co_qualname if hasattr(code, 'co_qualname') else code.co_name} ({_place(frame)})"
        )
        frame = frame.f_back
    return names[::-1]


def _place(frame: FrameType) -> str:
    """The end of the path, which says enough: train.py, or optim/adam.py; and the line the function begins at."""
    return f"{'/'.join(PurePath(frame.f_code.co_filename).parts[-2:])}:{frame.f_code.co_firstlineno}"
