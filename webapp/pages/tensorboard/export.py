"""The series of runs written as event files, and what is new in them appended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from trainmaster.event_files.writing import EventWriter
from webapp.experiments.models import Run
from webapp.metrics import queries as metrics
from webapp.metrics.values import Summary

MOST_POINTS = 1_000  # of a series at first; TensorBoard keeps as many
_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")

Steps = dict[int, tuple[int, dict[str, float]]]  # step → time and values


class Exporter:
    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._versions: dict[str, int] = {}
        self._writers: dict[str, EventWriter] = {}
        self._written: dict[tuple[str, str], int] = {}  # run and metric → last step

    def sync(self, runs: Sequence[Run]) -> None:
        ids = [run.id for run in runs]
        for run, version in zip(runs, metrics.version(ids), strict=True):
            known = self._versions.get(run.id)
            if known is None:
                self._begin(run)
                self._write(run, _whole(run))
            elif known != version:
                self._write(run, self._news(run, known))
            self._versions[run.id] = version

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
