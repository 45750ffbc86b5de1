"""Two versions of a model side by side: what they measured, what they cost to serve, and what they were made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from platform_core.experiments.comparison import MISSING, differences, flatten
from platform_core.registry.exports import Export, is_same
from platform_core.units import format_bytes
from webapp.datasets import queries as datasets
from webapp.registry import evidence, exports, facts, queries
from webapp.registry.models import Model, ModelVersion

LONGEST_VALUE = 200
Pair = tuple[ModelVersion, ModelVersion]


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    before: str
    after: str
    change: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    lines: tuple[Line, ...]
    nothing: str  # what is said where there is no line


def pair(
    model: Model, versions: Sequence[ModelVersion], before: int | None = None, after: int | None = None
) -> Pair | None:
    """These; else what is in production and the newest one. None for a model with fewer than two versions.

    Raises not_found.
    """
    if len(versions) < 2:
        return None
    newest, second = versions[0], versions[1]
    new = newest if after is None else queries.numbered(model, after)
    old = queries.in_production(model) if before is None else queries.numbered(model, before)
    if old is None or old.pk == new.pk:
        old = second if new.pk == newest.pk else newest
    return old, new


def sections(pair: Pair) -> Iterator[Section]:
    yield Section("Metrics", tuple(_metrics(pair)), "Neither version was registered with a metric.")
    yield Section("Evaluation results", tuple(_results(pair)), "No suite has measured them.")
    yield Section("Size and latency", tuple(_cost(pair)), "")
    yield Section("Data", tuple(_data(pair)), "Neither comes from a job with a dataset.")
    yield Section(
        "Configuration", tuple(_config(pair)), "The settings of their jobs do not differ, or are not known."
    )


def _metrics(pair: Pair) -> Iterator[Line]:
    first, second = (version.metrics for version in pair)
    for name in sorted({*first, *second}):
        before, after = first.get(name), second.get(name)
        yield Line(name, _number(before), _number(after), _change(before, after))


def _results(pair: Pair) -> Iterator[Line]:
    """Means with the intervals that hold them with 95 %; what the server measured before what people sent."""
    first, second = (dict(_means(version)) for version in pair)
    for suite, metric, place in sorted({*first, *second}):
        one, other = first.get((suite, metric, place), {}), second.get((suite, metric, place), {})
        change = _change(one.get("mean"), other.get("mean"))
        where = f" of {place}" if place else ""
        yield Line(f"{suite}: {metric}{where}", _interval(one), _interval(other), change)


def _means(version: ModelVersion) -> Iterator[tuple[tuple[str, str, str], Mapping[str, Any]]]:
    """By suite, metric and slice, "" for all samples."""
    for row in evidence.evaluations(version).order_by("suite", "by_server"):
        for place, metrics in (("", row.metrics), *row.slices.items()):
            for metric, measured in metrics.items():
                yield (row.suite, metric, place), measured or {}


def _cost(pair: Pair) -> Iterator[Line]:
    known = [", ".join(facts.formats(version)) for version in pair]
    if any(known):
        yield Line("formats", known[0], known[1], "" if known[0] == known[1] else "other formats")
    sizes = [version.manifest.total_bytes if version.manifest else None for version in pair]
    before, after = ("" if size is None else format_bytes(size) for size in sizes)
    yield Line("size of the files", before, after, _part(sizes[0], sizes[1]))
    first, second = (_exports(version) for version in pair)
    for format in sorted({*first, *second}):
        one, other = first.get(format), second.get(format)
        ways = (
            ("p95 of one row", [_of(one, "p95_ms"), _of(other, "p95_ms")], lambda value: f"{value:.4g} ms"),
            ("memory", [_of(one, "memory_bytes"), _of(other, "memory_bytes")], format_bytes),
        )
        for what, values, written in ways:
            if any(value is not None for value in values):
                before, after = ("" if value is None else written(value) for value in values)
                yield Line(f"{format}: {what}", before, after, _part(*values))
    devices = [report.device if (report := exports.report_of(version)) else "" for version in pair]
    if any(devices):
        yield Line("exports measured on", *devices)


def _exports(version: ModelVersion) -> dict[str, Export]:
    """By format, those that compute what the original does."""
    report = exports.report_of(version)
    return {one.format: one for one in report.exports if is_same(one)} if report else {}


def _of(export: Export | None, field: str) -> Any:
    return None if export is None else getattr(export, field)


def _data(pair: Pair) -> Iterator[Line]:
    ids = [str(version.job.spec.get("dataset", "")) if version.job else "" for version in pair]
    rows = {row.id: row for row in datasets.rows_of(filter(None, ids))}
    if not rows:
        return
    named = [f"{rows[key].name} v{rows[key].version}" if key in rows else "" for key in ids]
    known = [rows.get(key) for key in ids]
    change = ""
    if ids[0] == ids[1]:
        change = "the same"
    elif all(
        row is not None and row.manifest_id for row in known
    ):  # of a deleted one the files are not known
        change = str(datasets.difference(*map(rows.__getitem__, ids)))
    yield Line("dataset", named[0], named[1], change)


def _config(pair: Pair) -> Iterator[Line]:
    configs = [_settings(version) for version in pair]
    if not all(configs):
        return
    for difference in differences(configs):
        yield Line(difference.name, *map(_text, difference.values))


def _settings(version: ModelVersion) -> dict[str, Any]:
    """Of the job that it came from, else the parameters of its run."""
    if version.job is not None:
        return flatten(version.job.spec)
    return flatten(version.run.parameters) if version.run is not None else {}


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else ""


def _change(before: Any, after: Any) -> str:
    known = isinstance(before, int | float) and isinstance(after, int | float)
    return f"{after - before:+.4g}" if known else ""


def _interval(metric: Mapping[str, Any]) -> str:
    if metric.get("mean") is None:
        return ""
    text = f"{metric['mean']:.4g}"
    low, high = metric.get("low"), metric.get("high")
    return text if low is None or high is None else f"{text} ({low:.4g} to {high:.4g})"


def _part(before: float | None, after: float | None) -> str:
    return f"{(after - before) / before:+.1%}".replace("%", " %") if before and after is not None else ""


def _text(value: object) -> str:
    return "" if value is MISSING else str(value)[:LONGEST_VALUE]
