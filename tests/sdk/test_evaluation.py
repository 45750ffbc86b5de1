"""What the script of an evaluation suite hands over, and what it finds in files of weights."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from platform_core.errors import TrainmasterError
from platform_core.evaluations.validation import problem_of
from trainmaster import evaluation, weights

BF16 = {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}


def safetensors(path: Path, tensors: dict[str, tuple[str, bytes]]) -> Path:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, (dtype, content) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [], "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def bf16(*values: float) -> bytes:
    return (np.array(values, "<f4").view("<u4") >> 16).astype("<u2").tobytes()


def test_each_float_type_of_safetensors_is_measured(tmp_path: Path) -> None:
    three_four = np.array([3, 4])
    found = weights.measured(
        safetensors(
            tmp_path / "m.safetensors",
            {
                "f64": ("F64", three_four.astype("<f8").tobytes()),
                "f32": ("F32", np.array([3, 4, math.nan, math.inf], "<f4").tobytes()),
                "f16": ("F16", three_four.astype("<f2").tobytes()),
                "bf16": ("BF16", bf16(3, 4, -math.inf)),
                "steps": ("I64", three_four.astype("<i8").tobytes()),
            },
        )
    )
    assert {name: (one["numbers"], one["not_finite"], one["norm"]) for name, one in found.items()} == {
        "f64": (2, 0, 5.0), "f32": (4, 2, 5.0), "f16": (2, 0, 5.0), "bf16": (3, 1, 5.0),
    }  # fmt: skip


def test_what_torch_saved_is_measured_without_running_code_of_it(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    torch.save({"model": {"w": torch.tensor([3.0, 4.0])}, "steps": [torch.tensor(1)]}, tmp_path / "state.pt")
    assert weights.measured(tmp_path / "state.pt") == {
        "model.w": {"numbers": 2, "not_finite": 0, "norm": 5.0}
    }
    torch.save({"path": Path("x")}, tmp_path / "code.pt")
    with pytest.raises(TrainmasterError, match="as weights alone"):
        weights.measured(tmp_path / "code.pt")


@pytest.mark.parametrize("content", [b"", b"\xff" * 16, (2).to_bytes(8, "little") + b"[]"])
def test_a_file_that_is_no_safetensors_is_refused_by_its_name(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "m.safetensors").write_bytes(content)
    with pytest.raises(TrainmasterError, match=r"m\.safetensors"):
        weights.measured(tmp_path / "m.safetensors")


def test_results_and_digests_are_kept_with_the_run_and_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[str, str] = {}
    monkeypatch.setattr(
        evaluation.api, "log_artifact", lambda path: kept.update({path.name: path.read_text()})
    )
    model = tmp_path / "model"
    model.mkdir()
    file = safetensors(model / "m.safetensors", {"w": ("BF16", bf16(1, 2))})
    monkeypatch.setenv("TRAINMASTER_MODEL", str(model))
    assert evaluation.model_dir() == model
    evaluation.validate()
    assert evaluation.report({"id": n, "metrics": {"f1": 0.5}} for n in range(3)) == 3
    assert len(kept[evaluation.RESULTS].splitlines()) == 3
    report = json.loads(kept[evaluation.VALIDATION])
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert problem_of(report, [{"path": "m.safetensors", "sha256": digest}]) == ""
    assert "differ" in problem_of(report, [{"path": "m.safetensors", "sha256": "0"}])
    assert "no files and tensors" in problem_of({}, [])
    with pytest.raises(TrainmasterError, match="line 1"):
        evaluation.report([{"id": 1, "metrics": {}}])
    with pytest.raises(TrainmasterError, match="has no files"):
        evaluation.validate(tmp_path / "elsewhere")
