"""Stack dumps of the ranks of a job: which rank is stuck where, and which collective the others wait in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Activity(StrEnum):
    """What the main thread of a rank is in."""

    COLLECTIVE = "collective"  # it waits for the other ranks
    BACKWARD = "backward"  # where DDP and FSDP reduce gradients: it waits for the other ranks, or computes
    COMPILE = "compile"
    CHECKPOINT = "checkpoint"
    SCRIPT = "script"
    SILENT = "silent"  # it gave no stack


@dataclass(frozen=True, slots=True)
class Frame:
    file: str
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class RankStack:
    """The stack of one rank in short. `moving`: another stack came a few seconds later."""

    rank: int
    activity: Activity
    function: str = ""  # the collective, or the innermost function of the script
    location: str = ""  # "train.py:42", of the script
    state: str = ""  # of the process, where it gave no stack: "stopped", "waits for a disk"
    step: int = 0
    moving: bool = False

    @property
    def waits(self) -> bool:
        return not self.moving and self.activity in (Activity.COLLECTIVE, Activity.BACKWARD)

    @property
    def works(self) -> bool:
        return self.moving or self.activity is Activity.COMPILE


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """`stuck`: the ranks that do not wait for others, or all of them where that cannot be told."""

    stuck: tuple[int, ...]
    works: tuple[int, ...]  # ranks that are still doing something: it is no hang
    collective: str
    sentence: str


_FAULTHANDLER = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d{1,9}) in (?P<function>.+)')
_PY_SPY = re.compile(r"    (?P<function>.+) \((?P<file>.+):(?P<line>\d{1,9})\)")
_THREAD = re.compile(
    r"(?:(?P<current>Current thread|Thread) 0x[0-9a-f]+|Thread (?:\d+|0x[0-9a-f]+) \([^)]*\))(?P<name>.*)"
)
_LONGEST_LINE = 2_000  # a job writes them; the patterns take the square of a line's length
_LIBRARIES = re.compile(r"(?:site|dist)-packages/|/lib/python3[^/]*/|/sdk/trainmaster/|^<")
_WRAPPERS = re.compile(r"wrapper|_decorator|decorate_context|inner|__enter__|__exit__")
_OF_FILE: tuple[tuple[str, Activity], ...] = (
    ("torch/_dynamo/", Activity.COMPILE),
    ("torch/_inductor/", Activity.COMPILE),
    ("triton/compiler/", Activity.COMPILE),
    ("torch/distributed/checkpoint/", Activity.CHECKPOINT),
    ("trainmaster/checkpoints/", Activity.CHECKPOINT),
    ("torch/distributed/distributed_c10d.py", Activity.COLLECTIVE),
    ("torch/distributed/_functional_collectives", Activity.COLLECTIVE),
    ("horovod/torch/mpi_ops.py", Activity.COLLECTIVE),
    ("torch/autograd/graph.py", Activity.BACKWARD),
)


def parse(text: str) -> tuple[Frame, ...]:
    """The main thread's frames, the innermost first, of the last dump in the text by faulthandler or py-spy.

    faulthandler writes the main thread last, and py-spy calls it MainThread.
    """
    threads: list[tuple[str, list[Frame]]] = []
    for line in text.splitlines():
        line = line[:_LONGEST_LINE]
        if thread := _THREAD.match(line):
            threads.append((thread["name"], []))
        elif threads and (frame := _FAULTHANDLER.fullmatch(line) or _PY_SPY.fullmatch(line)):
            threads[-1][1].append(Frame(frame["file"], int(frame["line"]), frame["function"]))
    named = [frames for name, frames in threads if "MainThread" in name]
    return tuple((named or [frames for _, frames in threads] or [[]])[-1])


def summary(rank: int, frames: Sequence[Frame], step: int = 0, state: str = "") -> RankStack:
    """The stack in short: the activity of the innermost frame of a known library, else the script's."""
    if not frames:
        return RankStack(rank, Activity.SILENT, state=state, step=step)
    own = next((frame for frame in frames if not _LIBRARIES.search(frame.file)), frames[-1])
    location = f"{own.file.rsplit('/', 1)[-1]}:{own.line}"
    for frame in frames:
        if frame is own:
            break
        activity = next((kind for part, kind in _OF_FILE if part in frame.file), None)
        if activity is not None and not _WRAPPERS.search(frame.function):
            function = "backward" if activity is Activity.BACKWARD else frame.function
            return RankStack(rank, activity, function, location, step=step)
    return RankStack(rank, Activity.SCRIPT, own.function, location, step=step)


def moved(before: Sequence[Frame], after: Sequence[Frame]) -> bool:
    """Whether a rank does something: it gave two stacks, and they differ."""
    return bool(before) and bool(after) and tuple(before) != tuple(after)


def diagnose(ranks: Sequence[RankStack]) -> Diagnosis:
    """Which rank holds the others up. A rank that does not wait for others is stuck; where all wait, the one that is
    in another collective than most, or at an earlier step."""
    ordered = sorted(ranks, key=lambda stack: stack.rank)
    waiting = [stack for stack in ordered if stack.waits]
    works = tuple(stack.rank for stack in ordered if stack.works)
    stuck = [stack for stack in ordered if not stack.waits and not stack.works]
    if len(ordered) == 1 and not works:
        stuck, waiting = ordered, []
    collective = Counter(stack.function for stack in waiting).most_common(1)[0][0] if waiting else ""
    if not stuck and not works and len(waiting) > 1:
        first = min(stack.step for stack in waiting)
        latest = max(stack.step for stack in waiting)
        odd = [stack for stack in waiting if stack.function != collective]
        stuck = odd or [stack for stack in waiting if first < latest and stack.step == first]
    others = [stack for stack in waiting if stack not in stuck]
    if works:
        sentence = f"{_ranks(works)} still {_verb(works, 'works', 'work')}"
    elif stuck:
        sentence = "; ".join(_stuck_at(stack) for stack in stuck[:3])
        sentence += f"; {len(stuck) - 3} more ranks are stuck" if len(stuck) > 3 else ""
    else:
        sentence = "no rank is ahead of the others" if others else "no rank gave a stack"
    if others:
        numbers = tuple(stack.rank for stack in others)
        sentence += f"; {_ranks(numbers)} {_verb(numbers, 'waits', 'wait')} in {collective}"
    named = tuple(stack.rank for stack in stuck or ([] if works else ordered))
    return Diagnosis(named, works, collective, sentence)


def _stuck_at(stack: RankStack) -> str:
    if stack.activity is Activity.SILENT:
        return f"rank {stack.rank} does not answer" + (f" ({stack.state})" if stack.state else "")
    where = f" in {stack.function}" if stack.function else ""
    return f"rank {stack.rank} {'waits' if stack.waits else 'is stuck'}{where}" + (
        f" ({stack.location})" if stack.location else ""
    )


def _ranks(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"rank {numbers[0]}"
    if len(numbers) > 4:
        return f"{len(numbers)} ranks"
    return f"ranks {', '.join(map(str, numbers[:-1]))} and {numbers[-1]}"


def _verb(numbers: Sequence[int], singular: str, plural: str) -> str:
    return singular if len(numbers) == 1 else plural
