"""What can be recorded of a running script: each recorder writes files and sums them up as a table."""

from __future__ import annotations

import gzip
import json
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from platform_core.efficiency.profiles import Kind, Span, Summary, kind_of_kernel, summary
from trainmaster.efficiency.sampling import Sampler

_WAITS = (
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "aten::item",
    "aten::_local_scalar_dense",
)
_DATA = ("enumerate(DataLoader)",)
_TRACE_COLUMNS = ("name", "kind", "calls", "milliseconds", "share of the time")
_MEMORY_COLUMNS = ("name", "calls", "MiB allocated, less what was freed")
_FLAME_COLUMNS = ("function", "own samples", "own share", "share with what it calls")
MOST_LINES, MOST_ENTRIES = 40, 100_000
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Recorded:
    """The files, and what the run shows of them. The summary is of a trace."""

    stem: str
    files: Sequence[Path]
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    summary: Summary | None = None


class Recorder(Protocol):
    stem: str
    least_seconds: float

    def start(self) -> None: ...

    def finish(self, stem: Path, steps: int, seconds: float) -> Recorded:
        """Writes files whose names begin with `stem`."""
        ...


def recorder_of(kind: str) -> tuple[Recorder | None, str]:
    """None and the reason where the script cannot be recorded so."""
    if kind == "flame":
        return Flame(), ""
    if kind not in ("trace", "memory"):
        return (
            None,
            f"a recording of the kind {kind!r} was ordered, which this version of the SDK does not know",
        )
    if "torch" not in sys.modules:
        return None, "a profile was ordered, but the script does not use torch"
    return (Trace() if kind == "trace" else Memory()), ""


class Trace:
    """Operators and kernels, in Chrome's trace format."""

    stem, least_seconds = "profile", 0.0

    def __init__(self) -> None:
        self._profiler = _torch_profiler()

    def start(self) -> None:
        self._profiler.start()

    def finish(self, stem: Path, steps: int, seconds: float) -> Recorded:
        self._profiler.stop()
        file = _exported(self._profiler, stem)
        spans = list(_spans(self._profiler.events()))
        first = min((span.start for span in spans), default=0.0)
        found = summary(spans, first, first + 1e6 * seconds, steps)
        return Recorded(self.stem, [file], _TRACE_COLUMNS, _trace_rows(found), summary=found)


class Memory:
    """Each allocation of torch's allocators beside the operators, and on CUDA the allocator's own snapshot."""

    stem, least_seconds = "memory", 0.0

    def __init__(self) -> None:
        self._profiler = _torch_profiler(profile_memory=True)

    def start(self) -> None:
        import torch

        if torch.cuda.is_available():
            torch.cuda.memory._record_memory_history(max_entries=MOST_ENTRIES)
        self._profiler.start()

    def finish(self, stem: Path, steps: int, seconds: float) -> Recorded:
        import torch

        self._profiler.stop()
        files = [_exported(self._profiler, stem)]
        if torch.cuda.is_available():
            files.append(stem.with_name(f"{stem.name}.pickle"))
            torch.cuda.memory._dump_snapshot(str(files[-1]))  # type: ignore[no-untyped-call]
            torch.cuda.memory._record_memory_history(enabled=None)
        with gzip.open(files[0], "rt") as source:
            curve = list(_allocated(json.load(source)["traceEvents"]))
        return Recorded(self.stem, files, _MEMORY_COLUMNS, _memory_rows(curve, self._profiler.key_averages()))


class Flame:
    """Where the threads of the script are, sampled 200 times a second."""

    stem, least_seconds = "flame", 2.0

    def __init__(self) -> None:
        self._sampler = Sampler()

    def start(self) -> None:
        self._sampler.start()

    def finish(self, stem: Path, steps: int, seconds: float) -> Recorded:
        found = self._sampler.stop()
        file = stem.with_name(f"{stem.name}.folded.txt")
        file.write_text(found.folded())
        rows = [
            (
                line.function,
                line.own,
                round(line.own / found.samples, 4),
                round(line.total / found.samples, 4),
            )
            for line in found.functions()[:MOST_LINES]
        ]
        return Recorded(self.stem, [file], _FLAME_COLUMNS, rows)


def _torch_profiler(**options: Any) -> Any:
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])
    return profile(activities=activities, acc_events=True, **options)


def _exported(profiler: Any, stem: Path) -> Path:
    plain = stem.with_name(f".writing-{stem.name}.json")
    profiler.export_chrome_trace(str(plain))
    trace = stem.with_name(f"{stem.name}.json.gz")
    with open(plain, "rb") as source, gzip.open(trace, "wb", compresslevel=4) as target:
        shutil.copyfileobj(source, target)
    plain.unlink()
    return trace


def _trace_rows(found: Summary) -> list[Sequence[Any]]:
    parts = ("compute", "communication", "copies", "idle", "waiting", "data")
    rows: list[Sequence[Any]] = [
        (f"all: {part}", part, "", round(share * found.wall_us / 1000, 3), round(share, 4))
        for part in parts
        for share in (getattr(found, part),)
    ]
    return rows + [
        (
            line.name[:200],
            line.kind.value,
            line.calls,
            round(line.us / 1000, 3),
            round(line.us / found.wall_us, 4),
        )
        for line in found.lines
    ]


def _allocated(events: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, float]]:
    """Device type (0: the processor) and bytes in use, at each allocation."""
    for event in events:
        if event.get("name") == "[memory]":
            given = event.get("args", {})
            yield int(given.get("Device Type", 0)), float(given.get("Total Allocated", 0))


def _memory_rows(curve: Sequence[tuple[int, float]], operators: Any) -> list[Sequence[Any]]:
    rows: list[Sequence[Any]] = []
    for device in sorted({device for device, _ in curve}, reverse=True):
        held = [size for kind, size in curve if kind == device]
        name = "GPU" if device else "CPU"
        rows += [
            (f"all: {name} {moment}", "", round(size / MIB, 3))
            for moment, size in (("at first", held[0]), ("at most", max(held)), ("at last", held[-1]))
        ]
    sums = [(each.key, each.count, _own_bytes(each)) for each in operators]
    sums = sorted((each for each in sums if each[2]), key=lambda each: -abs(each[2]))
    return rows + [(name[:200], count, round(size / MIB, 3)) for name, count, size in sums[:MOST_LINES]]


def _own_bytes(event: Any) -> int:
    return int(getattr(event, "self_device_memory_usage", 0) or event.self_cpu_memory_usage)


def _spans(events: Any) -> Iterator[Span]:
    """Kernels where there is a GPU, else operators, which may lie inside each other."""
    listed = list(events)
    on_device = any("CUDA" in str(event.device_type) for event in listed)
    for event in listed:
        start, end, name = float(event.time_range.start), float(event.time_range.end), str(event.name)
        if name.startswith("ProfilerStep"):
            continue
        if name.startswith(_DATA):
            yield Span("DataLoader", Kind.DATA, start, end)
        elif "CUDA" in str(event.device_type):
            yield Span(name, kind_of_kernel(name), start, end)
        elif name in _WAITS:
            if on_device:
                yield Span(name, Kind.WAIT, start, end)
        elif kind_of_kernel(name) is Kind.COMMUNICATION:
            if not on_device:
                yield Span(name, Kind.COMMUNICATION, start, end)
        elif not on_device and name.startswith("aten::"):
            yield Span(name, Kind.COMPUTE, start, end, float(event.self_cpu_time_total))
