"""Writers of exports, one function a format."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import torch

from platform_core.registry.exports import Dtype, Format
from trainmaster.model_export import safetensors_file

FILES: Mapping[str, str] = {
    Format.SAFETENSORS: "model.safetensors",
    Format.TORCHSCRIPT: "model.ts",
    Format.TORCH_EXPORT: "model.pt2",
    Format.ONNX: "model.onnx",
}
MOST_ROWS = 1024  # of a batch that an exported program takes
OPSET = 18
_ONNX = ("onnx", "onnxscript", "onnxruntime")  # to write it, and to check it
_DTYPES = {Dtype.FLOAT16: torch.float16, Dtype.BFLOAT16: torch.bfloat16, Dtype.FLOAT32: torch.float32}


class Cast(torch.nn.Module):
    """A module that computes in another dtype: callers send and get float32 as before."""

    def __init__(self, module: torch.nn.Module, dtype: torch.dtype) -> None:
        super().__init__()
        self.module = module.to(dtype)
        self.dtype = dtype

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        cast = rows.to(self.dtype) if rows.is_floating_point() else rows
        output: torch.Tensor = self.module(cast)
        return output.float() if output.is_floating_point() else output


def in_dtype(module: torch.nn.Module, dtype: str) -> torch.nn.Module:
    return module if dtype == Dtype.FLOAT32 else Cast(module, _DTYPES[Dtype(dtype)])


def missing(format: str) -> str:
    """Why this Python cannot write and check the format; "" where it can."""
    absent = [name for name in _ONNX if find_spec(name) is None] if format == Format.ONNX else []
    if not absent:
        return ""
    return f"{format} needs {' and '.join(absent)}, which this Python does not have: pip install {' '.join(absent)}"


def write(format: str, module: torch.nn.Module, rows: torch.Tensor, path: Path, opset: int) -> None:
    """`rows` are samples, two at least. Raises what torch raises for a module that it cannot export."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch prefers one format to the other; the target decides
        _WRITERS[format](module, rows, path, opset)


def _safetensors(module: torch.nn.Module, rows: torch.Tensor, path: Path, opset: int) -> None:
    inner = module.module if isinstance(module, Cast) else module
    safetensors_file.write(inner.state_dict(), path)


def _torchscript(module: torch.nn.Module, rows: torch.Tensor, path: Path, opset: int) -> None:
    """Compiled where it can be, so that branches on data stay; else traced."""
    try:
        program = torch.jit.script(module)
    except Exception:  # torch raises whatever its compiler meets
        program = torch.jit.trace(module, rows, check_trace=False)  # type: ignore[no-untyped-call]
    torch.jit.save(program, str(path))


def _torch_export(module: torch.nn.Module, rows: torch.Tensor, path: Path, opset: int) -> None:
    batch = torch.export.Dim("batch", min=1, max=MOST_ROWS)
    program = torch.export.export(module, (rows,), dynamic_shapes=({0: batch},))
    torch.export.save(program, str(path))


def _onnx(module: torch.nn.Module, rows: torch.Tensor, path: Path, opset: int) -> None:
    batch = torch.export.Dim("batch", min=1, max=MOST_ROWS)
    torch.onnx.export(
        module, (rows,), str(path), opset_version=opset, dynamo=True, dynamic_shapes=({0: batch},),
        input_names=["rows"], output_names=["outputs"], external_data=False, verbose=False,
    )  # fmt: skip


_WRITERS: Mapping[str, Callable[[torch.nn.Module, torch.Tensor, Path, int], None]] = {
    Format.SAFETENSORS: _safetensors,
    Format.TORCHSCRIPT: _torchscript,
    Format.TORCH_EXPORT: _torch_export,
    Format.ONNX: _onnx,
}
