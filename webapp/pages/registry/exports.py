"""Exports of a version on the page of its model: what was measured of each, and which targets they serve."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from platform_core.registry.export_report import Report
from platform_core.registry.exports import Export, Target, is_same
from platform_core.units import format_bytes
from webapp.registry import exports
from webapp.registry.exports import Verdict
from webapp.registry.models import ModelVersion, ServingTarget


@dataclass(frozen=True, slots=True)
class ExportRow:
    export: Export
    difference: str
    verdict: str
    tone: str


@dataclass(frozen=True, slots=True)
class ExportsPanel:
    rows: tuple[ExportRow, ...]
    about: str  # on what it was measured
    problem: str  # why the report cannot be read
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class TargetRow:
    name: str
    constraints: str


def exports_of(version: ModelVersion, targets: Sequence[ServingTarget]) -> ExportsPanel:
    """Empty for a version without a report."""
    if not version.exports:
        return ExportsPanel((), "", "", ())
    report = exports.report_of(version)
    about = f"{report.samples:,} samples on {report.device}" if report else ""
    rows = (
        tuple(ExportRow(one, _difference(one), *_verdict(one, report)) for one in report.exports)
        if report
        else ()
    )
    verdicts = tuple(exports.verdicts(version, targets))
    return ExportsPanel(rows, about, version.exports.get("problem", ""), verdicts)


def target_row(row: ServingTarget) -> TargetRow:
    return TargetRow(row.name, "; ".join(_constraints(exports.target_of(row))) or "requires nothing")


def _verdict(export: Export, report: Report) -> tuple[str, str]:
    """In words, and its tone. Where no file was written, for want of a package say, nothing can be wrong."""
    if is_same(export):
        return "as the original", "good"
    if export.problem:
        return ("does not count", "failed") if report.digests.get(export.file) else ("not made", "none")
    return ("not compared" if export.difference is None else "differs from the original"), "failed"


def _difference(export: Export) -> str:
    if export.difference is None:
        return ""
    absolute = export.difference.absolute
    return "not a number" if math.isnan(absolute) else f"{absolute:.2g}"


def _constraints(target: Target) -> Iterator[str]:
    if target.max_latency_ms:
        yield f"at most {target.max_latency_ms:g} ms (p95)"
    if target.max_memory_bytes:
        yield f"at most {format_bytes(target.max_memory_bytes)} of memory"
    if target.max_difference:
        yield f"differs by at most {target.max_difference:g}"
    if target.dtype:
        yield target.dtype
    if target.formats:
        yield " or ".join(sorted(target.formats))
    if target.max_opset:
        yield f"opset {target.max_opset} or lower"
    if target.gpu_type:
        yield f"measured on {target.gpu_type}"
