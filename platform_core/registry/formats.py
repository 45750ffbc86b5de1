"""The formats in which the files of a version are, by their names."""

from __future__ import annotations

from collections.abc import Iterable

BY_ENDING = {
    ".safetensors": "safetensors", ".ts": "torchscript", ".pt2": "torch_export", ".onnx": "onnx", ".pt": "pytorch",
    ".pth": "pytorch", ".gguf": "gguf",
}  # fmt: skip
BY_NAME = {"MLmodel": "mlflow", "model.py": "python"}


def formats_of(paths: Iterable[str]) -> list[str]:
    """Sorted; empty where no name says one."""
    found = set()
    for path in paths:
        name = path.rpartition("/")[2]
        ending = name[name.rfind(".") :] if "." in name else ""
        found.add(BY_NAME.get(name) or BY_ENDING.get(ending, ""))
    return sorted(found - {""})
