"""Serving targets and reports of exports, read from mappings of JSON and written as such."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platform_core.errors import TrainmasterError
from platform_core.registry import signatures
from platform_core.registry.exports import Difference, Dtype, Export, Format, Target, Tolerance
from platform_core.registry.signatures import EMPTY, Signature

FILE = "export.json"  # beside the exports that it describes
SAMPLES = "export-samples.npz"  # beside them: rows, and what the original answers
MEASURED = "export-measured.json"  # that a job on the slots of a target hands over
MOST_EXPORTS, MOST_BYTES = 32, 1 << 20
MOST_MEMORY, MOST_MS, MOST_OPSET = 1 << 50, 3_600_000, 1_000
_LARGEST = 1e300
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,59}")
_TARGET = {
    "max_latency_ms", "max_memory_bytes", "max_difference", "max_opset", "dtype", "formats", "gpu_type",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Report:
    """What an export wrote of itself: the machine, the samples, and each file with its SHA-256."""

    exports: tuple[Export, ...]
    digests: Mapping[str, str]  # file → SHA-256
    samples: int
    device: str
    tolerance: Tolerance
    signature: Signature = EMPTY


def target(name: str, fields: Any) -> Target:
    """Raises request_invalid with the field, its value and what it may be."""
    if not _NAME.fullmatch(name):
        why = "it must be small letters, digits, '.', '_' or '-', at most 60"
        raise _invalid("the name of the serving target", name, why, field="name")
    if not isinstance(fields, Mapping):
        raise _invalid("the serving target", fields, "it must be an object")
    if unknown := sorted(set(map(str, fields)) - _TARGET):
        raise _invalid("the field", unknown[0], f"it is none of {', '.join(sorted(_TARGET))}")
    dtype, formats = fields.get("dtype", ""), fields.get("formats", [])
    if dtype not in ("", *Dtype):
        raise _invalid("dtype", dtype, f"it must be {', '.join(Dtype)} or empty")
    if not isinstance(formats, list) or any(one not in tuple(Format) for one in formats):
        raise _invalid("formats", formats, f"it must be a list of {', '.join(Format)}")
    return Target(
        name,
        max_latency_ms=float(_number(fields, "max_latency_ms", MOST_MS)),
        max_memory_bytes=_whole(fields, "max_memory_bytes", MOST_MEMORY),
        max_difference=float(_number(fields, "max_difference", 1e9)),
        max_opset=_whole(fields, "max_opset", MOST_OPSET),
        dtype=str(dtype),
        formats=frozenset(map(str, formats)),
        gpu_type=_gpu_type(fields.get("gpu_type", "")),
    )


def _gpu_type(value: Any) -> str:
    if not isinstance(value, str) or (value and not _NAME.fullmatch(value)):
        why = "it must be the short name of a GPU type, such as cpu, or empty"
        raise _invalid("gpu_type", value, why)
    return value


def constraints(target: Target) -> dict[str, Any]:
    """Of this target, without what it leaves open."""
    fields = {
        "max_latency_ms": target.max_latency_ms, "max_memory_bytes": target.max_memory_bytes,
        "max_difference": target.max_difference, "max_opset": target.max_opset, "dtype": target.dtype,
        "formats": sorted(target.formats), "gpu_type": target.gpu_type,
    }  # fmt: skip
    return {name: value for name, value in fields.items() if value}


def read(document: Any) -> Report:
    """Raises request_invalid with what is wrong in the report."""
    report = _object(document, FILE)
    rows = report.get("exports")
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST_EXPORTS:
        raise _invalid("exports", rows, f"it must be a list of 1 to {MOST_EXPORTS}")
    tolerance = _object(report.get("tolerance"), "tolerance")
    exports = tuple(_export(row) for row in rows)
    return Report(
        exports,
        {export.file: _text(row, "sha256") for export, row in zip(exports, rows, strict=True) if export.file},
        _whole(report, "samples", 1 << 40),
        _text(report, "device"),
        Tolerance(float(_number(tolerance, "absolute")), float(_number(tolerance, "relative"))),
        _signature(report),
    )


def _signature(report: Mapping[str, Any]) -> Signature:
    """Of one input and one output; a report of before they were written has none."""
    sides = {side: report.get(side) for side in ("input", "output")}
    if not all(sides.values()):
        return EMPTY
    return signatures.read({f"{side}s": [tensor] for side, tensor in sides.items()})


def as_mapping(report: Report, **more: Any) -> dict[str, Any]:
    """The document `export.json`; a difference that is not a number is null there."""
    return {
        "samples": report.samples, "device": report.device,
        "tolerance": {"absolute": report.tolerance.absolute, "relative": report.tolerance.relative},
        **_sides(report.signature),
        **more,
        "exports": [_written(export, report.digests.get(export.file, "")) for export in report.exports],
    }  # fmt: skip


def _sides(signature: Signature) -> dict[str, Any]:
    written = signatures.as_mapping(signature)
    return {side: written[f"{side}s"][0] for side in ("input", "output") if written.get(f"{side}s")}


def _written(export: Export, digest: str) -> dict[str, Any]:
    found = export.difference
    numbers = {
        name: value if math.isfinite(value) else None
        for name, value in (
            ("absolute", found.absolute), ("relative", found.relative), ("of_tolerance", found.of_tolerance),
        )
    } if found else None  # fmt: skip
    return {
        "format": export.format, "file": export.file, "sha256": digest, "dtype": export.dtype, "difference": numbers,
        "p50_ms": export.p50_ms, "p95_ms": export.p95_ms, "memory_bytes": export.memory_bytes,
        "opset": export.opset, "problem": export.problem,
    }  # fmt: skip


def _export(document: Any) -> Export:
    row = _object(document, "an export")
    format, dtype = row.get("format"), row.get("dtype")
    if format not in tuple(Format):
        raise _invalid("format", format, f"it must be {', '.join(Format)}")
    if dtype not in tuple(Dtype):
        raise _invalid("dtype", dtype, f"it must be {', '.join(Dtype)}")
    difference = row.get("difference")
    return Export(
        str(format),
        _text(row, "file"),
        str(dtype),
        None if difference is None else _difference(_object(difference, "difference")),
        None if row.get("p50_ms") is None else float(_number(row, "p50_ms", MOST_MS)),
        None if row.get("p95_ms") is None else float(_number(row, "p95_ms", MOST_MS)),
        None if row.get("memory_bytes") is None else _whole(row, "memory_bytes", MOST_MEMORY),
        None if row.get("opset") is None else _whole(row, "opset", MOST_OPSET),
        _text(row, "problem", 2_000),
    )


def _difference(row: Mapping[str, Any]) -> Difference:
    names = ("absolute", "relative", "of_tolerance")
    return Difference(*(math.nan if row.get(name) is None else float(_number(row, name)) for name in names))


def _object(value: Any, what: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise _invalid(what, value, "it must be an object")
    return value


def _text(row: Mapping[str, Any], name: str, longest: int = 250) -> str:
    value = row.get(name, "")
    if not isinstance(value, str) or len(value) > longest or "\0" in value:
        raise _invalid(name, value, f"it must be a text of at most {longest} characters")
    return value


def _number(row: Mapping[str, Any], name: str, most: float = _LARGEST) -> int | float:
    value = row.get(name, 0)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _invalid(name, value, "it must be a number")
    if not 0 <= value <= most:
        raise _invalid(
            name, value, f"it must be from 0 to {most:,}" if most < _LARGEST else "it must be 0 or more"
        )
    return value


def _whole(row: Mapping[str, Any], name: str, most: int) -> int:
    value = _number(row, name, most)
    if not isinstance(value, int):
        raise _invalid(name, value, "it must be a whole number")
    return value


def _invalid(name: str, value: object, why: str, field: str = "") -> TrainmasterError:
    """`field`: its name in a form, where it has another one."""
    what = f"{name} {str(value)[:60]!r}"
    return TrainmasterError("request_invalid", what=what, why=why, field=field or name)
