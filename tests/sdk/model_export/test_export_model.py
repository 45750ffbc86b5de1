"""A trained module in every format that a server loads: the same numbers, and a wrong file is caught."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from platform_core.errors import TrainmasterError
from platform_core.registry import export_report
from platform_core.registry.exports import TOLERANCES, Dtype, Export, Format, Target, is_same, refusals
from platform_core.serving.runtimes import RuntimeName
from trainmaster.model_export import safetensors_file
from trainmaster.model_export.measure import BY_CLASS, measure
from trainmaster.model_export.run import check, export_model, write
from trainmaster.serving.loading import load

ROWS = np.random.default_rng(1).normal(size=(6, 8)).astype(np.float32)


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layers(rows)


@pytest.fixture
def mlp() -> Mlp:
    torch.manual_seed(1)
    return Mlp().eval()


def by_format(exports: tuple[Export, ...]) -> dict[str, Export]:
    return {export.format: export for export in exports}


def test_all_formats_of_torch_agree_with_the_module_and_are_measured(mlp: Mlp, tmp_path: Path) -> None:
    before = {name: tensor.clone() for name, tensor in mlp.state_dict().items()}
    report = export_model(
        mlp, ROWS, tmp_path, formats=["safetensors", "torchscript", "torch_export"], repeats=20
    )
    made = by_format(report.exports)
    assert [export.problem for export in report.exports] == ["", "", ""]
    assert all(is_same(export) for export in report.exports)
    for format in ("torchscript", "torch_export"):
        export = made[format]
        assert export.p50_ms is not None
        assert export.p95_ms is not None
        assert export.memory_bytes is not None
        assert 0 < export.p50_ms <= export.p95_ms
        assert export.memory_bytes > 1 << 20
    assert made["safetensors"].memory_bytes is None
    assert all(torch.equal(before[name], tensor) for name, tensor in mlp.state_dict().items())
    assert export_report.read(json.loads((tmp_path / export_report.FILE).read_text())) == report
    assert set(report.digests) == {"model.safetensors", "model.ts", "model.pt2"}


@pytest.mark.parametrize("format", ["torchscript", "torch_export"])
def test_the_model_server_loads_what_was_exported(mlp: Mlp, tmp_path: Path, format: str) -> None:
    export_model(mlp, ROWS, tmp_path, formats=[format], repeats=1)
    runtime = load(tmp_path, RuntimeName.AUTO, "")
    outputs = runtime.predict([runtime.prepare(row.tolist()) for row in ROWS])
    np.testing.assert_allclose(np.stack(outputs), mlp(torch.from_numpy(ROWS)).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("format", ["safetensors", "torchscript", "torch_export"])
def test_perturbed_weights_are_caught(mlp: Mlp, tmp_path: Path, format: str) -> None:
    wrong = Mlp()
    wrong.load_state_dict(mlp.state_dict())
    with torch.no_grad():
        wrong.layers[2].bias[3] += 0.01
    export = check(
        mlp, ROWS, tmp_path, write(wrong.eval(), ROWS, tmp_path, format, "float32"), TOLERANCES["float32"], 1
    )
    assert export.problem == ""
    assert export.difference is not None
    assert export.difference.absolute == pytest.approx(0.01, rel=1e-3)
    assert not is_same(export)
    assert "it differs from the original by 0.01" in refusals(Target("any"), export)[0]


class Branching(Mlp):
    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        if rows.shape[0] == 1:
            return self.layers(rows) + 1
        return self.layers(rows)


def test_a_trace_of_one_batch_size_is_caught(tmp_path: Path) -> None:
    module = Branching().eval()
    traced = torch.jit.trace(module, torch.from_numpy(ROWS), check_trace=False)
    torch.jit.save(traced, str(tmp_path / "model.ts"))
    export = check(
        module, ROWS, tmp_path, Export("torchscript", "model.ts", "float32"), TOLERANCES["float32"], 1
    )
    assert export.difference is not None
    assert export.difference.absolute == pytest.approx(1, rel=1e-3)
    assert not is_same(export)


def test_a_file_that_does_not_load_says_why(mlp: Mlp, tmp_path: Path) -> None:
    (tmp_path / "model.ts").write_bytes(b"not a program")
    export = check(
        mlp, ROWS, tmp_path, Export("torchscript", "model.ts", "float32"), TOLERANCES["float32"], 1
    )
    assert export.problem.startswith("it cannot be run: RuntimeError: ")
    assert not is_same(export)


def test_weights_that_lack_a_tensor_are_caught(mlp: Mlp, tmp_path: Path) -> None:
    state = dict(mlp.state_dict())
    del state["layers.2.bias"]
    safetensors_file.write(state, tmp_path / "model.safetensors")
    made = Export("safetensors", "model.safetensors", "float32")
    export = check(mlp, ROWS, tmp_path, made, TOLERANCES["float32"], 1)
    assert "it cannot be run" in export.problem


def test_a_target_chooses_format_and_dtype_and_its_refusals_are_written(mlp: Mlp, tmp_path: Path) -> None:
    target = Target("phone", max_memory_bytes=1 << 20, dtype="bfloat16", formats=frozenset({"torchscript"}))
    report = export_model(mlp, ROWS, tmp_path, target=target, repeats=1)
    (export,) = report.exports
    assert (export.format, export.dtype) == ("torchscript", "bfloat16")
    assert is_same(export)
    assert export.difference is not None
    assert export.difference.absolute > 0
    written = json.loads((tmp_path / "export.json").read_text())
    assert written["target"]["name"] == "phone"
    assert "at most 1 MiB" in written["refused"]["torchscript"][0]
    assert written["input"] == {"dtype": "float32", "shape": [None, 8]}


@pytest.mark.parametrize("dtype", [Dtype.FLOAT16, Dtype.BFLOAT16])
def test_weights_of_half_the_size_stay_within_their_tolerance(mlp: Mlp, tmp_path: Path, dtype: Dtype) -> None:
    report = export_model(mlp, ROWS, tmp_path, formats=["safetensors"], dtype=dtype, repeats=1)
    assert is_same(report.exports[0])
    weights = safetensors_file.read(tmp_path / "model.safetensors")
    assert {str(tensor.dtype) for tensor in weights.values()} == {f"torch.{dtype}"}


def test_an_absent_package_is_a_sentence_in_the_report(
    mlp: Mlp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("trainmaster.model_export.formats.find_spec", lambda name: None)
    report = export_model(mlp, ROWS, tmp_path, formats=["onnx"], repeats=1)
    problem = report.exports[0].problem
    assert problem.startswith(
        "onnx needs onnx and onnxscript and onnxruntime, which this Python does not have: pip"
    )
    assert not (tmp_path / "model.onnx").exists()
    assert report.digests == {}
    assert refusals(Target("any"), report.exports[0]) == (problem,)


@pytest.mark.parametrize(
    ("samples", "more", "sentence"),
    [
        (np.asarray(["a"]), {}, "give rows of numbers"),
        (np.zeros((0, 8)), {}, "one at least"),
        (ROWS, {"formats": ["pickle"]}, "it must be safetensors, torchscript, torch_export, onnx"),
        (ROWS, {"dtype": "int4"}, "it must be float32, float16, bfloat16"),
    ],
)
def test_what_cannot_be_exported_is_refused_before_anything_is_written(
    mlp: Mlp, tmp_path: Path, samples: object, more: dict[str, object], sentence: str
) -> None:
    with pytest.raises(TrainmasterError, match=sentence):
        export_model(mlp, samples, tmp_path / "new", **more)  # type: ignore[arg-type]
    assert not (tmp_path / "new").exists()


def test_safetensors_keep_every_bit(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3, 5).T, "b": torch.arange(4), "c": torch.tensor([True, False]),
        "d": torch.randn(2, 2).to(torch.bfloat16), "scalar": torch.tensor(2.5), "empty": torch.empty(0, 3),
    }  # fmt: skip
    safetensors_file.write(tensors, tmp_path / "t.safetensors")
    found = safetensors_file.read(tmp_path / "t.safetensors")
    assert list(found) == list(tensors)
    assert all(
        torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype
        for name, tensor in tensors.items()
    )


def test_an_embedding_gets_whole_numbers(tmp_path: Path) -> None:
    module = torch.nn.Sequential(torch.nn.Embedding(10, 4), torch.nn.Flatten(), torch.nn.Linear(12, 2)).eval()
    rows = np.arange(9).reshape(3, 3)
    report = export_model(
        module, rows, tmp_path, formats=[Format.TORCHSCRIPT, Format.TORCH_EXPORT], repeats=1
    )
    assert [is_same(export) for export in report.exports] == [True, True]


def test_reports_of_a_fixed_machine_are_those_of_its_exports(mlp: Mlp, tmp_path: Path) -> None:
    report = export_model(mlp, torch.from_numpy(ROWS[:1]), tmp_path, formats=["torchscript"], repeats=3)
    assert report.samples == 1
    assert replace(report, exports=()).tolerance == TOLERANCES["float32"]


def test_exports_are_measured_again_where_they_are_served(mlp: Mlp, tmp_path: Path) -> None:
    made = export_model(mlp, ROWS, tmp_path / "exports", formats=["safetensors", "torchscript"], repeats=1)
    weights, program = measure(tmp_path, repeats=5).exports
    assert (weights.problem, weights.p95_ms) == (BY_CLASS, None)
    assert is_same(program)
    assert program.p95_ms is not None
    assert program.memory_bytes is not None
    assert made.digests["model.ts"] == measure(tmp_path, repeats=1).digests["model.ts"]
    (tmp_path / "exports" / "model.ts").write_bytes(b"another program")
    broken = by_format(measure(tmp_path, repeats=1).exports)["torchscript"]
    assert broken.problem.startswith("it cannot be run here: ")
    (tmp_path / "exports" / export_report.SAMPLES).unlink()
    with pytest.raises(TrainmasterError, match="export the model again"):
        measure(tmp_path)
