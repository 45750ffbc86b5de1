"""The end reason that an error text stands for: a table of patterns, the first that matches. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from platform_core.jobs.ends import EndReason

_TAIL_LINES = 60


class Cause(NamedTuple):
    end: EndReason
    line: str  # the line of the text that says so


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# CUDA errors that a wrong kernel or a wrong index causes: the GPU is well.
_WRONG_KERNEL = (
    r"device-side assert|illegal memory access|misaligned address|illegal instruction|invalid configuration"
    r"|invalid argument|invalid device (?:ordinal|function|symbol)|no kernel image|invalid resource handle"
)
# Xids of the hardware; the others (13, 31, 43, 45, …) come from programs.
_XIDS = r"48|61|62|63|64|74|79|92|94|95|119|120|136|140|143"

# In this order: what is more specific stands first.
PATTERNS: tuple[tuple[EndReason, re.Pattern[str]], ...] = (
    (EndReason.SILENT_CORRUPTION, _any(r"\bCorruptionFound: at step \d+")),
    (EndReason.DATA_REVIEW, _any(
        r"\bNeedsReview: \d+ samples and \d+ shards could not be read",
        r"\bNeedsReview: None of the \d+ samples of rank",
    )),
    (EndReason.OUT_OF_MEMORY_GPU, _any(
        r"\b(?:CUDA|HIP|XPU) out of memory", r"\btorch\.(?:cuda\.)?OutOfMemoryError", r"CUDA error: out of memory",
        r"cudaErrorMemoryAllocation", r"CUBLAS_STATUS_ALLOC_FAILED", r"RESOURCE_EXHAUSTED: Out of memory",
        r"Cuda failure (?:\d+ )?'?out of memory",
    )),
    (EndReason.OUT_OF_MEMORY_HOST, _any(
        r"^(?:[\w.]*\.)?_?(?:Array)?MemoryError\b", r"DefaultCPUAllocator: (?:can't|not enough)", r"\bstd::bad_alloc\b",
        r"\[Errno 12\] Cannot allocate memory", r"insufficient shared memory \(shm\)",
        r"unable to allocate shared memory",
        r"DataLoader worker \(pid(?:\(s\))? [\d, ]+\) is killed by signal: (?:Killed|Bus error)",
    )),
    (EndReason.DISK_FULL, _any(
        r"No space left on device", r"\[Errno (?:28|122)\]", r"Disk quota exceeded",
        r"inline_container\.cc:\d+\] \. (?:unexpected pos|PytorchStreamWriter failed writing)",  # torch.save
    )),
    (EndReason.SCRIPT_ERROR, _any(rf"(?:CUDA error: |Cuda failure (?:\d+ )?'?)(?:an )?(?:{_WRONG_KERNEL})")),
    (EndReason.GPU_FAILED, _any(
        r"uncorrectable (?:ECC|NVLink) error", r"\bCUDA error: ", r"\bCuda failure ", rf"\bXid\b.*: (?:{_XIDS}),",
        r"fallen off the bus", r"\bGPU is lost\b", r"ncclUnhandledCudaError", r"No CUDA GPUs are available",
        r"CUDA driver initialization failed", r"CUDA unknown error", r"No CUDA-capable device is detected",
    )),
    (EndReason.LAUNCHER, _any(
        r"\bEADDRINUSE\b", r"failed to listen on any local network address", r"Address already in use",
        r"No module named '?torch(?:\.distributed\.run)?'?$",
    )),
    (EndReason.NETWORK, _any(
        r"Watchdog caught collective operation timeout", r"\bWorkNCCL\(.*ran for \d+ milliseconds",
        r"\bnccl(?:System|Remote|Internal)Error\b", r"\bDistBackendError\b.*\bNCCL\b",
        r"\bDist(?:Network|Store)Error\b", r"gloo/transport/", r"NET/IB.*(?:error|timeout)", r"Socket Timeout\b",
        r"\bConnection (?:reset|closed|refused|aborted) by (?:remote )?peer", r"\bConnection re(?:set|fused)\b",
        r"\bConnection(?:Reset|Refused|Aborted)Error\b", r"The client socket has timed out", r"recvValue failed",
        r"\bsendBytes failed", r"Rendezvous(?:Connection|Timeout)Error", r"No route to host", r"Network is unreachable",
        r"Timed out waiting \d+ ?ms for (?:recv|send)",
        r"\bdid not answer(?:: \w+| to the end within)", r"\bsent (?:nothing|fewer than \S+ \S+ a second) for \d",
    )),
)  # fmt: skip
_PREFIX = re.compile(r"^\s*(?:\[rank\d+\]:\s*)?")  # as torch writes in front of a rank's traceback


def cause_of(line: str) -> Cause | None:
    """Returns the cause that one line of text stands for, if the table has it."""
    line = _PREFIX.sub("", line).strip()
    return next((Cause(end, line) for end, pattern in PATTERNS if pattern.search(line)), None)


def cause_in(log: str) -> Cause | None:
    """Returns the cause in the last lines of a log: of several the first that is no network error.

    When one rank dies its peers lose their connections, and the same log may have both.
    """
    causes = list(_causes(log))
    return next((cause for cause in causes if cause.end is not EndReason.NETWORK), next(iter(causes), None))


def _causes(log: str) -> Iterator[Cause]:
    for line in log.splitlines()[-_TAIL_LINES:]:
        if cause := cause_of(line):
            yield cause
