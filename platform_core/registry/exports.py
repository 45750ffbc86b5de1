"""Exports of a model: what a serving target asks of them, and whether a measured export serves it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from platform_core.units import format_bytes


class Format(StrEnum):
    SAFETENSORS = "safetensors"
    TORCHSCRIPT = "torchscript"
    TORCH_EXPORT = "torch_export"
    ONNX = "onnx"


class Dtype(StrEnum):
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"


@dataclass(frozen=True, slots=True)
class Target:
    """What serving asks of an export; 0, "" and an empty set ask nothing."""

    name: str
    max_latency_ms: float = 0.0  # p95 of one row
    max_memory_bytes: int = 0  # of the process that serves it
    max_difference: float = 0.0  # the largest absolute one from the original
    max_opset: int = 0  # of ONNX
    dtype: str = ""
    formats: frozenset[str] = frozenset()
    gpu_type: str = ""  # of the slots that serve; exports are measured there, whatever was measured elsewhere


@dataclass(frozen=True, slots=True)
class Tolerance:
    """An exported value may differ by `absolute`, and by `relative` times the original."""

    absolute: float
    relative: float


TOLERANCES: Mapping[str, Tolerance] = {
    Dtype.FLOAT32: Tolerance(1e-5, 1e-4),
    Dtype.FLOAT16: Tolerance(1e-2, 1e-2),
    Dtype.BFLOAT16: Tolerance(5e-2, 5e-2),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest over all values of all samples; NaN where an output is no number."""

    absolute: float
    relative: float
    of_tolerance: float  # of what the tolerance allows that value; at most 1 is within it


@dataclass(frozen=True, slots=True)
class Export:
    """One file as it was measured. None: not measured."""

    format: str
    file: str
    dtype: str
    difference: Difference | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    memory_bytes: int | None = None
    opset: int | None = None
    problem: str = ""  # why it could not be written, loaded or run


def percentile(values: Sequence[float], part: float) -> float:
    """The smallest value that at least this part of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(part * len(ordered)) - 1)]


def is_same(export: Export) -> bool:
    """Whether it computes what the original does, within its tolerance."""
    return not export.problem and export.difference is not None and export.difference.of_tolerance <= 1


def refusals(target: Target, export: Export) -> tuple[str, ...]:
    """Every reason why this export does not serve the target; empty: it does."""
    if export.problem:
        return (export.problem,)
    return (*_difference(target, export), *_form(target, export), *_cost(target, export))


def best(target: Target, exports: Sequence[Export]) -> tuple[Export | None, tuple[str, ...]]:
    """The fastest export that serves the target, or the reasons against all of them."""
    passed = [export for export in exports if not refusals(target, export)]
    if passed:
        return min(passed, key=lambda export: math.inf if export.p95_ms is None else export.p95_ms), ()
    if not exports:
        return None, ("it has no export",)
    return None, tuple(f"{export.format}: {why}" for export in exports for why in refusals(target, export))


def _difference(target: Target, export: Export) -> Iterator[str]:
    difference = export.difference
    if difference is None:
        yield "it was not compared with the original"
    elif not difference.of_tolerance <= 1:  # also for NaN
        yield (
            f"it differs from the original by {_figure(difference.absolute)}, {_figure(difference.of_tolerance)} times "
            "what its tolerance allows"
        )
    elif target.max_difference and difference.absolute > target.max_difference:
        yield f"it differs from the original by {difference.absolute:.4g}, at most {target.max_difference:.4g}"


def _form(target: Target, export: Export) -> Iterator[str]:
    if target.formats and export.format not in target.formats:
        yield f"its format is {export.format}, the target takes {' or '.join(sorted(target.formats))}"
    if target.dtype and export.dtype != target.dtype:
        yield f"its dtype is {export.dtype}, the target takes {target.dtype}"
    if target.max_opset and export.format == Format.ONNX and (export.opset or math.inf) > target.max_opset:
        yield f"its opset is {export.opset or 'not known'}, at most {target.max_opset}"


def _cost(target: Target, export: Export) -> Iterator[str]:
    if target.max_latency_ms:
        if export.p95_ms is None:
            yield "its latency was not measured"
        elif not export.p95_ms <= target.max_latency_ms:
            yield f"its latency is {export.p95_ms:.4g} ms (p95), at most {target.max_latency_ms:.4g} ms"
    if target.max_memory_bytes:
        if export.memory_bytes is None:
            yield "its memory was not measured"
        elif export.memory_bytes > target.max_memory_bytes:
            most = format_bytes(target.max_memory_bytes)
            yield f"its process takes {format_bytes(export.memory_bytes)}, at most {most}"


def _figure(value: float) -> str:
    return "not a number" if math.isnan(value) else f"{value:.4g}"
