"""Histories that W&B exports: of `run.history()` as CSV or JSON lines, and of a chart of its page as CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from trainmaster.importers.runs import Content, SourceError, SourceRun, flat
from trainmaster.importers.tables import Table, read_table, text_of
from trainmaster.importers.wandb_rows import Row, config_of, contents_of, time_of

_STEPS = ("_step", "Step", "step", "global_step", "trainer/global_step")
_TIMES = ("_timestamp", "Wall time", "timestamp")
_BOUNDS = ("__MIN", "__MAX")  # columns of a chart: how far the values behind a point of it reach
_BETWEEN = " - "  # the run and the metric in a column of a chart


@dataclass(slots=True)
class _Export:
    """What belongs to one run: rows with their step, of one file, or of the charts that show it."""

    rows: list[tuple[int, Row]] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)


def runs_of(files: Sequence[Path], experiment: str) -> list[SourceRun]:
    """Raises SourceError with the file and the line of what cannot be read."""
    exports: dict[str, _Export] = {}
    stems = [file.stem for file in files]
    for file in files:
        name = file.stem if stems.count(file.stem) == 1 else file.name
        for run, rows in _rows_by_run(file, name):
            export = exports.setdefault(run, _Export())
            export.rows += rows
            export.files.append(file)
    return [_run(name, export, experiment) for name, export in exports.items()]


def _run(name: str, export: _Export, experiment: str) -> SourceRun:
    times = [time for _, row in export.rows if (time := time_of(row)) is not None]
    config: dict[str, Any] = {}
    for file in export.files:
        for suffix in (".config.json", ".config.yaml"):
            config |= config_of(file.with_name(file.stem + suffix))
    return SourceRun(
        source="wandb",
        identity=name,
        experiment=experiment,
        name=name,
        content=partial(_content, export.rows, export.files[0].parent),
        parameters=flat(config),
        started_ms=min(times, default=None),
        ended_ms=max(times, default=None),
    )


def _content(rows: Iterable[tuple[int, Row]], folder: Path) -> Iterator[Content]:
    for step, row in rows:
        yield from contents_of(row, step, time_of(row) or 0, folder)


def _rows_by_run(file: Path, name: str) -> Iterator[tuple[str, list[tuple[int, Row]]]]:
    if file.suffix == ".csv":
        yield from _of_table(read_table(file), name)
        return
    rows = list(_lines(file))
    if not rows:
        raise SourceError(f"{file} has no rows")
    yield name, rows


def _of_table(table: Table, name: str) -> Iterator[tuple[str, list[tuple[int, Row]]]]:
    steps = next((column for column in _STEPS if column in table.columns), None)
    if steps is None:
        found = ", ".join(repr(column)[:60] for column in list(table.columns)[:6])
        raise SourceError(
            f"{table.file} has no column of steps ({', '.join(_STEPS[:3])}); its columns are {found}. "
            "Export it with Step as the x axis"
        )
    times = next((column for column in _TIMES if column in table.columns), None)
    begin = [(_step(table, line, row[steps]), row.get(times or "")) for line, row in table.rows]
    for run, columns in _runs_in(table.columns, name, {steps, times}).items():
        rows: list[tuple[int, Row]] = []
        for (step, at), (_, row) in zip(begin, table.rows, strict=True):
            values = {metric: row[column] for column, metric in columns.items() if row[column] is not None}
            if values:
                rows.append((step, values | ({} if at is None else {"_timestamp": at})))
        if not rows:
            raise SourceError(f"{table.file} has no values beside its steps")
        yield run, rows


def _runs_in(columns: Iterable[str], name: str, apart: set[str | None]) -> dict[str, dict[str, str]]:
    """Run → column → metric. A chart has the columns "RUN - METRIC", each with its bounds beside it."""
    values = [column for column in columns if column not in apart and not column.startswith("_")]
    if not any(column.endswith(_BOUNDS) and _BETWEEN in column for column in values):
        return {name: {column: column for column in values}}
    runs: dict[str, dict[str, str]] = {}
    for column in values:
        run, between, metric = column.rpartition(_BETWEEN)
        if between and not column.endswith(_BOUNDS) and not metric.startswith("_"):
            runs.setdefault(run, {})[column] = metric
    return runs


def _step(table: Table, line: int, value: object) -> int:
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 63:
        return int(value)
    shown = "nothing" if value is None else repr(value)[:60]
    raise SourceError(f"line {line} of {table.file} has no whole step: {shown}")


def _lines(file: Path) -> Iterator[tuple[int, Row]]:
    for number, line in enumerate(text_of(file).splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            raise SourceError(f"line {number} of {file} is not a JSON object")
        step = row.get("_step")
        if isinstance(step, bool) or not isinstance(step, int | float) or step != step or int(step) != step:
            raise SourceError(f"line {number} of {file} has no whole number as its _step")
        yield int(step), row
