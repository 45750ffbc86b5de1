"""Folders of models for the tests: the same little module in each form, and a class that writes texts."""

from base64 import b64decode
from pathlib import Path

import torch

CLASS = """
import json
from pathlib import Path

class Model:
    def __init__(self, folder):
        self.weights = json.loads((Path(folder) / "weights.json").read_text())

    def predict(self, rows):
        if any(row == "bad" for row in rows):
            raise RuntimeError("a bad row")
        return [[sum(x * w for x, w in zip(row, ws)) for ws in self.weights] for row in rows]
"""
WRITER = """
class Model:
    closed = 0

    def __init__(self, folder):
        pass

    def stream(self, request):
        try:
            for number in range(request["max_tokens"]):
                yield f"{request['prompt']}{number} "
        finally:
            Model.closed += 1

    def predict(self, rows):
        return [Model.closed for _ in rows]
"""
ONNX = (
    "CAgSADp0ChEKAXgKAXcSAXkiBk1hdE11bBIGbGluZWFyKiMIAwgCEAFCAXdKGAAAgD8AAAA/AAAAQAAAAAAAAEBAAACAv1oYCgF4"
    "EhMKEQgBEg0KBxIFYmF0Y2gKAggDYhgKAXkSEwoRCAESDQoHEgViYXRjaAoCCAJCBAoAEA0="
)
WEIGHTS = [[1.0, 2.0, 3.0], [0.5, 0.0, -1.0]]


class Linear(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def module() -> Linear:
    linear = Linear()
    linear.layer.weight.data = torch.tensor(WEIGHTS)
    return linear.eval()


def python(folder: Path) -> str:
    import json

    (folder / "weights.json").write_text(json.dumps(WEIGHTS))
    (folder / f"own_{folder.name}.py").write_text(CLASS)
    return f"own_{folder.name}:Model"


def torchscript(folder: Path) -> str:
    torch.jit.save(torch.jit.script(module()), str(folder / "model.pt"))
    return ""


def exported(folder: Path) -> str:
    batch = torch.export.Dim("batch", min=1, max=1024)
    program = torch.export.export(module(), (torch.zeros(2, 3),), dynamic_shapes=({0: batch},))
    torch.export.save(program, str(folder / "model.pt2"))
    return ""


def onnx(folder: Path) -> str:
    """One MatMul, as `onnx.helper` made it; its first dimension is dynamic."""
    (folder / "model.onnx").write_bytes(b64decode(ONNX))
    return ""


def eager(folder: Path) -> str:
    torch.save(module().state_dict(), folder / "weights.pt")
    return "tests.sdk.serving.models:Linear"


def writer(folder: Path) -> str:
    (folder / f"writer_{folder.name}.py").write_text(WRITER)
    return f"writer_{folder.name}:Model"
