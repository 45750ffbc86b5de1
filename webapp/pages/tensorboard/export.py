"""The series and rich values of runs written as event files, and what is new in them appended."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from platform_core.errors import TrainmasterError
from trainmaster.event_files.writing import EventWriter
from webapp.experiments import rich_values
from webapp.experiments.models import RichValue, Run
from webapp.metrics import queries as metrics
from webapp.metrics.values import Summary

MOST_POINTS = 1_000  # of a series at first; TensorBoard keeps as many
MOST_VALUES = 2_000  # of all runs at one look, the newest
MOST_OF_A_KEY = 10  # of these; TensorBoard keeps as many images
_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")

Steps = dict[int, tuple[int, dict[str, float]]]  # step → time and values


class Exporter:
    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._versions: dict[str, int] = {}
        self._writers: dict[str, EventWriter] = {}
        self._written: dict[tuple[str, str], int] = {}  # run and metric → last step
        self._last_value = 0  # id of the newest rich value of all runs
        self._missed: list[tuple[RichValue, str]] = []  # values with their keys; the store did not answer

    def sync(self, runs: Sequence[Run]) -> None:
        ids = [run.id for run in runs]
        followed = [run_id for run_id in ids if run_id in self._versions]
        for run, version in zip(runs, metrics.version(ids), strict=True):
            known = self._versions.get(run.id)
            if known is None:
                self._begin(run)
                self._write(run, _whole(run))
            elif known != version:
                self._write(run, self._news(run, known))
            self._versions[run.id] = version
        values = rich_values.newest(followed, self._last_value, MOST_VALUES)
        values += rich_values.newest(set(ids).difference(followed), 0, MOST_VALUES)
        self._missed = [(value, key) for value, key in self._missed if value.run_id in ids]
        self._write_values(values)

    def _begin(self, run: Run) -> None:
        name = f"{_UNSAFE.sub('_', run.name)[:80]}-{run.id[-8:]}"
        writer = self._writers[run.id] = EventWriter(self._logs / name, run.created_ms)
        if run.parameters:
            rows = "\n".join(
                f"| {_cell(key)} | {_cell(value)} |" for key, value in sorted(run.parameters.items())
            )
            writer.text("parameters", 0, run.created_ms, f"| parameter | value |\n|---|---|\n{rows}")

    def _write(self, run: Run, steps: Steps) -> None:
        writer = self._writers[run.id]
        for step, (at_ms, values) in sorted(steps.items()):
            writer.scalars(step, at_ms, values)
            self._written |= {(run.id, key): step for key in values}
        writer.flush()

    def _write_values(self, newest: Sequence[RichValue]) -> None:
        counts: Counter[tuple[str, str]] = Counter()
        chosen: list[tuple[RichValue, str]] = []
        for value in newest:
            key = value.key if value.index == 0 else f"{value.key}/{value.index}"
            counts[value.run_id, key] += 1
            if counts[value.run_id, key] <= MOST_OF_A_KEY:
                chosen.append((value, key))
        wanted, self._missed = [*self._missed, *reversed(chosen)], []
        for value, key in wanted:
            content = value.document
            try:
                content = b"".join(rich_values.read(value, 0, value.size)) if content is None else content
            except TrainmasterError:
                self._missed.append((value, key))  # the next look asks again
                continue
            self._writers[value.run_id].value(key, value.step, value.at_ms, value.kind, content)
        for run_id in {value.run_id for value, _ in wanted}:
            self._writers[run_id].flush()
        self._last_value = max(self._last_value, *(value.pk for value in newest), 0)

    def _news(self, run: Run, version: int) -> Steps:
        steps: Steps = {}
        for key, points in metrics.latest(run.id, version).points.items():
            last = self._written.get((run.id, key))
            for step, value, at_ms in zip(points.steps, points.values, points.times_ms, strict=True):
                if last is None or step > last:
                    steps.setdefault(step, (at_ms, {}))[1][key] = value
        return steps


def _whole(run: Run) -> Steps:
    steps: Steps = {}
    for key, summary in metrics.summaries([run.id])[run.id].items():
        for step, value, at_ms in _points(run, key, summary):
            steps.setdefault(step, (at_ms, {}))[1][key] = value
    return steps


def _points(run: Run, key: str, summary: Summary) -> list[tuple[int, float, int]]:
    """All of a short series; of a long one the last point of each column, at a time between its first and its last."""
    if summary.count <= 2 * MOST_POINTS:
        points, _ = metrics.history(run.id, key, limit=2 * MOST_POINTS)
        return list(zip(points.steps, points.values, points.times_ms, strict=True))
    bands = metrics.bands([run.id], key, columns=MOST_POINTS)[run.id]
    first_ms = run.started_ms or run.created_ms
    span = max(1, summary.last_step - summary.first_step)
    return [
        (
            int(step),
            value,
            first_ms + round((summary.last_ms - first_ms) * (step - summary.first_step) / span),
        )
        for step, value in zip(bands.x_to, bands.last, strict=True)
        if value is not None
    ]


def _cell(value: object) -> str:
    return str(value)[:200].replace("|", "\\|").replace("\n", " ")
