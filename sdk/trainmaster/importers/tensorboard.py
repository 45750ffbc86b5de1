"""Runs out of a folder of TensorBoard's event files."""

from __future__ import annotations

import math
import os
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from trainmaster.event_files.names import FILE_PREFIX, SPLITS, folder_of, prefix_of, written_at
from trainmaster.event_files.reading import Hyperparameters, Scalar, Value, session_start, values_of
from trainmaster.event_files.records import whole_records
from trainmaster.event_files.rich import rich_fields
from trainmaster.importers.runs import MOST_KEY, Content, Point, Rich, SourceError, SourceRun, parameter

_PIECE_BYTES = 8 << 20
# events.out.tfevents.SECONDS.HOST.PID.NUMBER: writers of one process, such as those of `add_scalars`
_WRITER = re.compile(re.escape(FILE_PREFIX) + r"(\d+)\.(?P<process>.+\.\d+)\.\d+(?:\.\w+)?$")


@dataclass(frozen=True, slots=True)
class _Facts:
    parameters: dict[str, object]
    started_ms: int | None
    ended_ms: int | None
    notes: tuple[str, ...]
    sessions: dict[
        str, tuple[int, float]
    ]  # file → its attempt, and the step from which later files replace it


def runs_of(folder: Path, experiment: str) -> Iterator[SourceRun]:
    """One for each folder that a TensorBoard would show; `train`, `val` and what `add_scalars` and `add_hparams` of
    PyTorch make below it belong to it. Raises SourceError."""
    files = _event_files(folder)
    if not files:
        raise SourceError(f"{folder} has no event files; they are called {FILE_PREFIX}…")
    for run_folder, names in sorted(_by_run(files).items()):
        ordered = sorted(names, key=lambda name: (written_at(name) or 0, name.count("/"), name))
        facts = _facts(folder, ordered)
        first = ordered[0].rpartition("/")[2]
        yield SourceRun(
            source="tensorboard",
            identity=f"{run_folder}\0{first}",
            experiment=experiment,
            name=run_folder or folder.resolve().name,
            content=partial(_content, folder, run_folder, ordered, facts.sessions),
            parameters=facts.parameters,
            started_ms=facts.started_ms,
            ended_ms=facts.ended_ms,
            notes=facts.notes,
        )


def _event_files(folder: Path) -> list[str]:
    """Relative, with forward slashes. Links are not followed."""
    found = []
    for root, folders, names in os.walk(folder):
        folders.sort()
        relative = Path(root).relative_to(folder).as_posix()
        found += [
            name if relative == "." else f"{relative}/{name}"
            for name in names
            if name.startswith(FILE_PREFIX)
        ]
    return sorted(found)


def _by_run(files: list[str]) -> dict[str, list[str]]:
    processes: dict[str, set[str]] = defaultdict(set)
    for name in files:
        processes[folder_of(name)].add(_process(name))
    runs: dict[str, list[str]] = defaultdict(list)
    for name in files:
        folder = folder_of(name)
        above = [
            other
            for other in processes
            if other != folder
            and (not other or folder.startswith(f"{other}/"))
            and _process(name) in processes[other]
        ]
        run_folder = min(above, key=len) if above else folder
        head, _, last = run_folder.rpartition("/")
        runs[head if last in SPLITS else run_folder].append(name)
    return runs


def _process(name: str) -> str:
    match = _WRITER.match(name.rpartition("/")[2])
    return match["process"] if match else name


def _facts(folder: Path, names: list[str]) -> _Facts:
    parameters: dict[str, object] = {}
    times, damaged = [], []
    starts: dict[str, list[int]] = {}
    for name in names:
        reader = _Reader(folder / name)
        for value in reader:
            if value.at_ms:
                times.append(value.at_ms)
            if isinstance(value, Hyperparameters):
                parameters |= {key[:MOST_KEY]: parameter(held) for key, held in value.parameters.items()}
        starts[name] = reader.starts
        if reader.is_damaged:
            damaged.append(f"{name} is damaged at byte {reader.offset:,}; the rest of it was left out.")
    return _Facts(
        parameters, min(times, default=None), max(times, default=None), tuple(damaged), _sessions(starts)
    )


def _sessions(starts: dict[str, list[int]]) -> dict[str, tuple[int, float]]:
    """`starts`: file → the steps at which its writers went on, in the order in which the files were written."""
    sessions: dict[str, tuple[int, float]] = {}
    begun: dict[str, int] = defaultdict(int)
    for name in starts:
        sessions[name] = (begun[folder_of(name)], math.inf)
        begun[folder_of(name)] += len(starts[name])
    purged: dict[str, float] = defaultdict(lambda: math.inf)
    for name in reversed(starts):
        sessions[name] = (sessions[name][0], purged[folder_of(name)])
        purged[folder_of(name)] = min(purged[folder_of(name)], *starts[name], math.inf)
    return sessions


def _content(
    folder: Path, run_folder: str, names: list[str], sessions: dict[str, tuple[int, float]]
) -> Iterator[Content]:
    for name in names:
        prefix = prefix_of(folder_of(name), run_folder)
        before, purged = sessions[name]
        reader = _Reader(folder / name)
        for value in reader:
            if value.step >= purged:
                continue
            key = f"{prefix}{value.key}"[:MOST_KEY]
            if isinstance(value, Scalar):
                yield Point(key, value.step, value.value, value.at_ms, before + len(reader.starts))
            elif (fields := rich_fields(value)) is not None:
                yield Rich(key, value.step, value.at_ms, **fields)


class _Reader:
    """The values of one file, in its order. What is left of a half-written or damaged end is left out."""

    def __init__(self, path: Path) -> None:
        self._path, self.offset, self.is_damaged = path, 0, False
        self.starts: list[int] = []  # steps at which its writer went on after a crash

    def __iter__(self) -> Iterator[Value]:
        plugins: dict[str, str] = {}
        with self._path.open("rb") as file:
            wanted = _PIECE_BYTES
            while not self.is_damaged:
                file.seek(self.offset)
                records = whole_records(file.read(wanted))
                for record in records.data:
                    if (step := session_start(record)) is not None:
                        self.starts.append(step)
                    yield from values_of(record, plugins)
                self.offset += records.length
                self.is_damaged = records.is_corrupt
                if not records.length and records.needs <= wanted:
                    return
                wanted = max(_PIECE_BYTES, records.needs)
