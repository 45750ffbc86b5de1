"""Exports against a serving target: a wrong number never passes, and each reason says its numbers."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.errors import TrainmasterError
from platform_core.registry import export_report
from platform_core.registry.differences import compare
from platform_core.registry.exports import (
    TOLERANCES,
    Difference,
    Dtype,
    Export,
    Format,
    Target,
    Tolerance,
    best,
    is_same,
    percentile,
    refusals,
)

TOLERANCE = Tolerance(1e-5, 1e-4)
GOOD = Export("torchscript", "model.ts", "float32", Difference(1e-6, 1e-6, 0.1), 2.0, 3.0, 200 << 20)
EDGE = Target("edge", max_latency_ms=5, max_memory_bytes=1 << 30, formats=frozenset({"torchscript", "onnx"}))

values = st.floats(-1e6, 1e6, allow_nan=False)
arrays = st.lists(values, min_size=1, max_size=20).map(lambda row: np.asarray(row, dtype=np.float64))
exports = st.builds(
    Export,
    format=st.sampled_from(list(Format)).map(str),
    file=st.sampled_from(["", "model.pt", "model.onnx"]),
    dtype=st.sampled_from(list(Dtype)).map(str),
    difference=st.none() | st.builds(Difference, *[st.floats(0, 1e9)] * 3),
    p50_ms=st.none() | st.floats(0, 1000),
    p95_ms=st.none() | st.floats(0, 1000),
    memory_bytes=st.none() | st.integers(0, 1 << 40),
    opset=st.none() | st.integers(0, 30),
    problem=st.sampled_from(["", "onnx is not installed"]),
)
targets = st.builds(
    Target,
    name=st.just("edge"),
    max_latency_ms=st.floats(0, 1000),
    max_memory_bytes=st.integers(0, 1 << 40),
    max_difference=st.floats(0, 10),
    max_opset=st.integers(0, 30),
    dtype=st.sampled_from(["", *map(str, Dtype)]),
    formats=st.frozensets(st.sampled_from(list(map(str, Format)))),
)


@given(arrays)
def test_an_export_that_computes_the_same_differs_by_nothing(original: np.ndarray) -> None:
    assert compare(original, original.copy(), TOLERANCE) == Difference(0.0, 0.0, 0.0)


@given(arrays, st.integers(0, 19), st.floats(-100, 100), st.sampled_from(list(TOLERANCES.values())))
def test_within_the_tolerance_is_what_numpy_calls_close(
    original: np.ndarray, place: int, change: float, tolerance: Tolerance
) -> None:
    exported = original.copy()
    exported[place % len(exported)] += change
    found = compare(original, exported, tolerance)
    at_the_edge = abs(found.of_tolerance - 1) < 1e-9
    close = np.allclose(exported, original, rtol=tolerance.relative, atol=tolerance.absolute)
    assert at_the_edge or (found.of_tolerance <= 1) == close


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_an_output_that_is_no_number_passes_nothing(wrong: float) -> None:
    found = compare(np.asarray([1.0, 2.0]), np.asarray([1.0, wrong]), TOLERANCE)
    export = replace(GOOD, difference=found)
    assert not is_same(export)
    assert "differs from the original by not a number" in refusals(Target("any"), export)[0]


def test_a_mask_of_the_original_is_equal_to_itself() -> None:
    row = np.asarray([-math.inf, 1.0])
    assert compare(row, row.copy(), TOLERANCE).of_tolerance == 0


def test_outputs_of_another_shape_are_refused_with_both_shapes() -> None:
    with pytest.raises(ValueError, match=r"shape \(1,\), those of the original \(2,\)"):
        compare(np.asarray([1.0, 2.0]), np.asarray([1.0]), TOLERANCE)


@pytest.mark.parametrize(
    ("export", "reason"),
    [
        (GOOD, ()),
        (replace(GOOD, p95_ms=7.5), ("its latency is 7.5 ms (p95), at most 5 ms",)),
        (replace(GOOD, p95_ms=None), ("its latency was not measured",)),
        (replace(GOOD, memory_bytes=2 << 30), ("its process takes 2 GiB, at most 1 GiB",)),
        (replace(GOOD, memory_bytes=None), ("its memory was not measured",)),
        (replace(GOOD, difference=None), ("it was not compared with the original",)),
        (replace(GOOD, problem="onnx is not installed"), ("onnx is not installed",)),
        (
            replace(GOOD, difference=Difference(0.5, 0.5, 12.0)),
            ("it differs from the original by 0.5, 12 times what its tolerance allows",),
        ),
        (
            replace(GOOD, format="safetensors"),
            ("its format is safetensors, the target takes onnx or torchscript",),
        ),
    ],
)
def test_each_constraint_refuses_alone_with_its_numbers(export: Export, reason: tuple[str, ...]) -> None:
    assert refusals(EDGE, export) == reason


def test_a_target_may_ask_for_less_difference_a_dtype_and_an_opset() -> None:
    strict = Target("strict", max_difference=1e-7, dtype="float16", max_opset=17)
    assert refusals(strict, replace(GOOD, format="onnx", opset=18)) == (
        "it differs from the original by 1e-06, at most 1e-07",
        "its dtype is float32, the target takes float16",
        "its opset is 18, at most 17",
    )


@given(targets, exports)
def test_what_passes_a_target_passes_one_that_asks_for_less(target: Target, export: Export) -> None:
    laxer = replace(target, max_latency_ms=target.max_latency_ms * 2, max_memory_bytes=0, formats=frozenset())
    if not refusals(target, export):
        assert refusals(laxer, export) == ()
    assert is_same(export) or refusals(Target("any"), export)


@given(targets, st.lists(exports, max_size=4))
def test_a_version_serves_a_target_by_its_fastest_export_that_passes(
    target: Target, made: list[Export]
) -> None:
    chosen, reasons = best(target, made)
    passed = [export for export in made if not refusals(target, export)]
    assert (chosen is None) == (not passed) == bool(reasons)
    if chosen is not None and chosen.p95_ms is not None:
        assert all(export.p95_ms is None or chosen.p95_ms <= export.p95_ms for export in passed)


@given(st.lists(values, min_size=1, max_size=50))
def test_a_percentile_is_one_of_the_values_and_grows(measured: list[float]) -> None:
    p50, p95 = percentile(measured, 0.5), percentile(measured, 0.95)
    assert p50 in measured
    assert p95 in measured
    assert p50 <= p95 <= max(measured)
    assert sum(value <= p95 for value in measured) >= 0.95 * len(measured)


@given(targets)
def test_a_target_is_read_as_it_was_written(target: Target) -> None:
    written = json.loads(json.dumps(export_report.constraints(target)))
    assert export_report.target("edge", written) == target


@given(st.lists(exports, min_size=1, max_size=4))
def test_a_report_is_read_as_it_was_written(made: list[Export]) -> None:
    digests = {export.file: "ab" * 32 for export in made if export.file}
    report = export_report.Report(tuple(made), digests, 8, "cpu", TOLERANCE)
    written = json.loads(json.dumps(export_report.as_mapping(report, seconds=3)))
    assert export_report.read(written) == report


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"max_latency_ms": -1}, "max_latency_ms '-1'"),
        ({"max_latency_ms": True}, "it must be a number"),
        ({"max_memory_bytes": 0.5}, "it must be a whole number"),
        ({"dtype": "int4"}, "it must be float32, float16, bfloat16 or empty"),
        ({"formats": "onnx"}, "it must be a list of safetensors"),
        ({"latency": 5}, "it is none of dtype, formats"),
        ([], "it must be an object"),
    ],
)
def test_a_bad_target_is_refused_with_the_field(fields: object, sentence: str) -> None:
    with pytest.raises(TrainmasterError) as refused:
        export_report.target("edge", fields)
    assert sentence in refused.value.sentence


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_a_report_is_read_or_refused_whatever_it_is(document: object) -> None:
    row = {"format": "onnx", "dtype": "float32", "difference": document, "file": document}
    for whole in (
        document,
        {"exports": document, "tolerance": {}},
        {"exports": [row], "tolerance": document},
    ):
        with suppress(TrainmasterError):
            assert export_report.read(whole).exports
