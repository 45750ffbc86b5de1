"""The model card of a version, in Markdown: what the platform knows of it, and what people add."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from platform_core.lineage.graph import Kind
from platform_core.registry.stages import Stage
from platform_core.units import format_bytes, plural
from webapp.recalls import queries as recalls
from webapp.registry import evidence, exports, facts, gates
from webapp.registry.models import ModelVersion

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~])")


def model_card(version: ModelVersion, origin: Sequence[str]) -> str:
    """`origin`: lines of Markdown on what it was made from."""
    return "\n".join(_lines(version, origin)) + "\n"


def plain(text: object) -> str:
    """On one line, without the marks of Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(str(text).split()))


def _lines(version: ModelVersion, origin: Sequence[str]) -> Iterator[str]:
    yield f"# {plain(version)}"
    if why := recalls.why(Kind.MODEL, version.id):
        yield f"\n**Do not use it: {plain(why)}.**"
    for text in (version.model.description, version.description):
        if text:
            yield f"\n{text}"
    yield ""
    yield from _table(("Fact", "Value"), _facts(version))
    yield "\n## Use and limits\n"
    yield version.card or "Nobody has written yet what it is for, and where it must not be used."
    yield "\n## Origin\n"
    yield from origin
    yield from _section("Metrics", ("Metric", "Value"), _metrics(version))
    titles = ("Suite", "Metric", "Slice", "Mean", "95 % interval", "Samples", "Measured by")
    yield from _section("Evaluation results", titles, _results(version))
    yield from _section("Exports", ("Format", "Dtype", "p95 of one row", "Memory"), _exports(version))


def _facts(version: ModelVersion) -> Iterator[tuple[str, str]]:
    yield "Model", f"{version.model.team_id}/{version.model.name}"
    yield "Stage", version.stage
    yield "Aliases", ", ".join(sorted(alias.name for alias in version.aliases.all()))
    yield "Tags", ", ".join(f"{name} = {value}" for name, value in sorted(version.tags.items()))
    yield "Licence", version.licence or "not stated"
    yield "Formats", ", ".join(facts.formats(version))
    if version.manifest is not None:
        size = format_bytes(version.manifest.total_bytes)
        yield "Size", f"{size} in {plural(version.manifest.files, 'file')}"
    signature = facts.signature(version)
    yield "Inputs", "; ".join(map(str, signature.inputs))
    yield "Outputs", "; ".join(map(str, signature.outputs))
    yield "Registered", f"{_day(version.created_ms)} by {version.created_by.username}"
    if version.model.gate:
        reasons = gates.refusals(version, Stage.PRODUCTION)
        yield "Gate for production", "; ".join(reasons) or "passes"
    approvals = version.approvals.select_related("user")
    yield "Approved by", ", ".join(f"{row.user.username} ({row.role})" for row in approvals)


def _metrics(version: ModelVersion) -> Iterator[tuple[str, str]]:
    for name, value in sorted(version.metrics.items()):
        yield name, _number(value)


def _results(version: ModelVersion) -> Iterator[tuple[str, ...]]:
    for row in evidence.evaluations(version):
        who = "the server" if row.by_server else row.evaluated_by.username
        for place, metrics in (("all", row.metrics), *sorted(row.slices.items())):
            for name, one in sorted(metrics.items()):
                interval = f"{_number(one['low'])} to {_number(one['high'])}"
                yield row.suite, name, place, _number(one["mean"]), interval, f"{one['samples']:,}", who


def _exports(version: ModelVersion) -> Iterator[tuple[str, ...]]:
    report = exports.report_of(version)
    for one in report.exports if report else ():
        if one.problem:
            yield one.format, one.dtype, one.problem, ""
        else:
            memory = "" if one.memory_bytes is None else format_bytes(one.memory_bytes)
            yield one.format, one.dtype, "" if one.p95_ms is None else f"{one.p95_ms:.3g} ms", memory


def _section(title: str, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    if known := list(rows):
        yield f"\n## {title}\n"
        yield from _table(titles, known)


def _table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Rows without a value are left out."""
    yield _row(titles)
    yield "|" + "---|" * len(titles)
    yield from (_row(map(plain, row)) for row in rows if row[1])


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "not a number"


def _day(at_ms: int) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"
