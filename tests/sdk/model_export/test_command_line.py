"""`trainmaster export-model`, `targets` and `register --folder`, against a platform that is a real HTTP server."""

import json
from pathlib import Path

import numpy as np
import torch

from tests.sdk.conftest import ME, Trainmaster
from tests.sdk.platform_stub import PlatformStub

MODULE = """
import torch

def make():
    return torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
"""
EDGE = {"team": "vision", "name": "edge", "constraints": {"formats": ["safetensors"], "max_difference": 0.5}}


def model_folder(folder: Path) -> Path:
    """With weights, and the class that they belong to."""
    folder.mkdir()
    (folder / "tiny_net.py").write_text(MODULE)
    made: dict[str, object] = {}
    exec(MODULE, made)
    torch.save(made["make"]().state_dict(), folder / "weights.pt")  # type: ignore[operator]
    np.save(folder / "rows.npy", np.ones((3, 4), dtype=np.float32))
    return folder


def test_a_model_is_exported_for_a_target_and_registered(
    trainmaster: Trainmaster, platform: PlatformStub, tmp_path: Path
) -> None:
    source, out = model_folder(tmp_path / "net"), tmp_path / "out"
    platform.answer("GET me", ME)
    platform.answer("GET serving-targets", {"results": [EDGE]})
    made = trainmaster(
        "export-model", str(source), str(out), "--entry", "tiny_net:make", "--samples", str(source / "rows.npy"),
        "--target", "vision/edge", "--repeats", "3",
    )  # fmt: skip
    assert "safetensors" in made.stdout
    document = json.loads((out / "export.json").read_text())
    assert document["refused"] == {"safetensors": []}
    platform.answer("POST uploads", {"id": "up-1", "kind": "model", "team": "vision", "name": "net"}, 201)
    platform.answer("PUT uploads/up-1/files/export.json", {})
    platform.answer("PUT uploads/up-1/files/export-samples.npz", {})
    platform.answer("PUT uploads/up-1/files/model.safetensors", {})
    platform.answer("POST uploads/up-1/complete", {"manifest": "man-1"})
    version = {"id": "mv-1", "model": "vision/net", "version": 1, "state": "ready", "source": "man-1"}
    platform.answer("POST models/net/versions", version, 201)
    done = trainmaster("register", "net", "--folder", str(out), "--team", "vision")
    assert done.stdout == "vision/net version 1\n"
    [asked] = platform.requests("POST", "models")
    assert asked.json == {"team": "vision", "manifest": "man-1"}


def test_targets_are_listed_set_and_checked(trainmaster: Trainmaster, platform: PlatformStub) -> None:
    platform.answer("GET serving-targets", {"results": [EDGE]})
    platform.answer("PUT serving-targets/vision/edge", {**EDGE, "constraints": {"max_memory_bytes": 2 << 30}})
    platform.answer("DELETE serving-targets/vision/edge", {})
    export = {
        "format": "torchscript", "dtype": "float32", "difference": {"absolute": 1e-6}, "p50_ms": 1.5, "p95_ms": 3.25,
        "memory_bytes": 300 << 20, "problem": "",
    }  # fmt: skip
    verdicts = [
        {"target": "edge", "passed": True, "format": "torchscript", "reasons": []},
        {
            "target": "phone",
            "passed": False,
            "format": None,
            "reasons": ["torchscript: too slow"],
            "measurement": {
                "gpu_type": "l4",
                "state": "done",
                "reason": "",
                "report": {"device": "NVIDIA L4"},
            },
        },
    ]
    found = {"problem": "", "report": {"exports": [export]}, "targets": verdicts}
    platform.answer("GET models/vision/net/versions/1/exports", found)
    assert "formats safetensors, max_difference 0.5" in trainmaster("targets", "list").stdout
    set_ = trainmaster("targets", "set", "vision/edge", "--max-memory", "2GiB")
    assert set_.stdout == "vision/edge: max_memory_bytes 2147483648\n"
    [asked] = platform.requests("PUT", "serving-targets")
    assert asked.json == {"max_memory_bytes": 2 << 30}
    told = trainmaster("targets", "check", "vision/net:1").stdout
    assert "  measured on l4: done NVIDIA L4" in told
    assert "300 MiB" in told
    assert "edge: served by torchscript\nphone: not served\n  torchscript: too slow" in told
    assert trainmaster("targets", "delete", "vision/edge").stdout == "vision/edge is deleted.\n"


def test_weights_of_another_model_are_refused_in_a_sentence(trainmaster: Trainmaster, tmp_path: Path) -> None:
    source = model_folder(tmp_path / "net")
    torch.save({"other": torch.zeros(2)}, source / "weights.pt")
    words = ["export-model", str(source), str(tmp_path / "out"), "--entry", "tiny_net:make"]
    refused = trainmaster(*words, "--samples", str(source / "rows.npy"), code=1)
    assert "are not those of tiny_net:make" in refused.stderr
    assert not (tmp_path / "out").exists()
