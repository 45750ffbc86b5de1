"""Signatures and formats of versions, as people and exports state them."""

from typing import Any

import pytest

from platform_core.errors import TrainmasterError
from platform_core.registry import export_report, signatures
from platform_core.registry.formats import formats_of

ROW = {"dtype": "float32", "shape": [None, 8]}
BOTH = {"inputs": [ROW], "outputs": [{"name": "scores", "dtype": "float32", "shape": [None, 3]}]}


def test_a_signature_is_written_as_it_was_read() -> None:
    signature = signatures.read(BOTH)
    assert signatures.as_mapping(signature) == BOTH
    assert [str(tensor) for tensor in (*signature.inputs, *signature.outputs)] == [
        "float32 [any, 8]", "scores float32 [any, 3]",
    ]  # fmt: skip
    assert signatures.as_mapping(signatures.read({})) == {}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "an object with inputs and outputs"),
        ({"input": [ROW]}, "an object with inputs and outputs"),
        ({"inputs": [ROW]}, "outputs must be a list of 1 to 64"),
        ({"inputs": [], "outputs": [ROW]}, "inputs must be a list of 1 to 64"),
        ({"inputs": [{"shape": [1]}], "outputs": [ROW]}, "needs a dtype"),
        ({"inputs": [ROW | {"shape": [-1]}], "outputs": [ROW]}, "list of sizes, null for any"),
        ({"inputs": [ROW | {"shape": [True]}], "outputs": [ROW]}, "list of sizes, null for any"),
        ({"inputs": [ROW | {"name": "x" * 121}], "outputs": [ROW]}, "at most 120 characters"),
    ],
)
def test_what_is_no_signature_is_refused_with_the_reason(given: Any, why: str) -> None:
    with pytest.raises(TrainmasterError) as caught:
        signatures.read(given)
    assert why in caught.value.sentence


def test_the_report_of_an_export_keeps_the_signature_of_its_model() -> None:
    export = {
        "format": "torchscript",
        "file": "model.ts",
        "sha256": "0" * 64,
        "dtype": "float32",
        "problem": "",
    }
    document = {
        "exports": [export], "samples": 4, "device": "cpu", "tolerance": {"absolute": 0.1, "relative": 0.1},
    }  # fmt: skip
    assert export_report.read(document).signature == signatures.EMPTY
    report = export_report.read(document | {"input": ROW, "output": ROW})
    assert signatures.as_mapping(report.signature) == {"inputs": [ROW], "outputs": [ROW]}
    assert export_report.read(export_report.as_mapping(report)).signature == report.signature


def test_formats_are_told_by_the_names_of_files() -> None:
    paths = [
        "a/model.safetensors",
        "model.ts",
        "model.pt2",
        "MLmodel",
        "README",
        "folder.pt/data.bin",
        ".onnx",
    ]
    assert formats_of(paths) == ["mlflow", "onnx", "safetensors", "torch_export", "torchscript"]
