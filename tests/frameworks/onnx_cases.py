"""Export, check and serve by the real ONNX Runtime: run by test_onnx_runtime.py where it is installed."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from platform_core.registry.exports import TOLERANCES, Dtype, Target, is_same, refusals
from tests.sdk.serving.processes import STAND_IN, serving
from trainmaster.model_export.run import check, export_model, write

pytestmark = pytest.mark.timeout(500)  # the exporter of torch imports for a minute on a busy machine
ROWS = np.random.default_rng(1).normal(size=(6, 8)).astype(np.float32)
EDGE = Target(
    "edge", max_latency_ms=1_000, max_memory_bytes=8 << 30, max_opset=18, formats=frozenset({"onnx"})
)


@pytest.fixture
def mlp() -> torch.nn.Module:
    torch.manual_seed(1)
    layers = (torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4))
    return torch.nn.Sequential(*layers).eval()


def expected(module: torch.nn.Module, rows: np.ndarray) -> np.ndarray:
    with torch.inference_mode():
        return module(torch.from_numpy(rows)).numpy()


def test_it_is_the_real_package() -> None:
    assert not str(onnxruntime.__file__).startswith(STAND_IN)
    assert onnxruntime.get_device()


def test_a_module_is_exported_checked_and_served(
    mlp: torch.nn.Module, tmp_path: Path, unused_tcp_port: int
) -> None:
    report = export_model(mlp, ROWS, tmp_path, target=EDGE, repeats=20)
    [export] = report.exports
    assert (export.problem, export.format, export.file, export.opset) == ("", "onnx", "model.onnx", 18)
    assert is_same(export)
    assert refusals(EDGE, export) == ()
    model = onnx.load(str(tmp_path / export.file))
    onnx.checker.check_model(model)
    assert [one.version for one in model.opset_import if one.domain in ("", "ai.onnx")] == [18]

    with serving(tmp_path, unused_tcp_port, "--name", "mlp") as server:
        for rows in (ROWS[:1], ROWS):
            answer = server.client.post("/predict", json={"inputs": rows.tolist()}).json()
            np.testing.assert_allclose(answer["outputs"], expected(mlp, rows), rtol=1e-4, atol=1e-5)
        metadata = server.client.get("/v2/models/mlp").json()
        assert [(one["datatype"], one["shape"]) for one in metadata["inputs"]] == [("FP32", [-1, 8])]
        wrong = server.client.post("/predict", json={"inputs": [[1.0, 2.0]]})
        assert wrong.status_code in (400, 500)
        assert server.client.post("/predict", json={"inputs": ROWS.tolist()}).status_code == 200


def test_half_precision_stays_within_its_tolerance(mlp: torch.nn.Module, tmp_path: Path) -> None:
    [export] = export_model(mlp, ROWS, tmp_path, formats=["onnx"], dtype=Dtype.FLOAT16, repeats=1).exports
    assert export.problem == ""
    assert is_same(export)


def test_a_file_of_other_weights_is_caught(mlp: torch.nn.Module, tmp_path: Path) -> None:
    other = copy.deepcopy(mlp)
    with torch.no_grad():
        other[0].weight[0] += 0.5
    written = write(other, ROWS, tmp_path, "onnx", Dtype.FLOAT32)
    export = check(mlp, ROWS, tmp_path, written, TOLERANCES[Dtype.FLOAT32], 1)
    assert export.problem == ""
    assert not is_same(export)


def test_a_damaged_file_is_a_problem(mlp: torch.nn.Module, tmp_path: Path) -> None:
    written = write(mlp, ROWS, tmp_path, "onnx", Dtype.FLOAT32)
    (tmp_path / written.file).write_bytes(b"\x08\x01 damaged")
    export = check(mlp, ROWS, tmp_path, written, TOLERANCES[Dtype.FLOAT32], 1)
    assert "ONNX Runtime cannot load model.onnx" in export.problem
