"""PyTorch modules: TorchScript files, exported programs, and eager modules with their weights."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainmaster.serving.contract import Tensor
from trainmaster.serving.runtimes.arrays import ArrayRuntime, model_file
from trainmaster.serving.runtimes.custom import LoadError, named

DATATYPES = {
    torch.float32: "FP32", torch.float64: "FP64", torch.float16: "FP16", torch.bfloat16: "BF16",
    torch.int64: "INT64", torch.int32: "INT32", torch.int16: "INT16", torch.int8: "INT8", torch.uint8: "UINT8",
    torch.bool: "BOOL",
}  # fmt: skip


class TorchRuntime(ArrayRuntime):
    """Stacks the rows, runs the module once, and cuts its output into rows. It uses the GPU where there is one."""

    def __init__(
        self, module: Any, whole_numbers: bool, inputs: Sequence[Tensor] = (), outputs: Sequence[Tensor] = ()
    ) -> None:
        super().__init__(whole_numbers, inputs, outputs)
        self._device = _device()
        self._module = module.to(self._device) if isinstance(module, torch.nn.Module) else module

    def compile(self) -> None:
        """Its code is made when the first batches come, once for a row alone and once for all other numbers."""
        self._module = torch.compile(self._module, dynamic=True)

    def run(self, batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        with torch.inference_mode():
            output = self._module(torch.from_numpy(batch).to(self._device))
        if not isinstance(output, torch.Tensor):
            raise TypeError(f"the module gave {type(output).__name__}; a server answers with one tensor")
        array: np.ndarray[Any, Any] = (
            output.float() if output.is_floating_point() else output
        ).cpu().numpy()  # fmt: skip
        return array

    def close(self) -> None:
        self._module = None


def scripted(folder: Path, entry: str) -> TorchRuntime:
    """A module that `torch.jit.save` wrote."""
    file = model_file(folder, entry, ".pt", ".ts")
    module = torch.jit.load(str(file), map_location=_device()).eval()  # type: ignore[no-untyped-call]
    return TorchRuntime(module, any(part.original_name.startswith("Embedding") for part in module.modules()))


def exported(folder: Path, entry: str) -> TorchRuntime:
    """A program that `torch.export.save` wrote, with a dynamic first dimension."""
    program = torch.export.load(str(model_file(folder, entry, ".pt2")))
    arguments = program.example_inputs[0] if program.example_inputs else ()
    whole = any(isinstance(one, torch.Tensor) and not one.is_floating_point() for one in arguments)
    values = {node.name: node.meta.get("val") for node in program.graph.nodes}
    signature = program.graph_signature
    return TorchRuntime(
        program.module(),
        whole,
        _tensors(signature.user_inputs, values),
        _tensors(signature.user_outputs, values),
    )


def eager(folder: Path, entry: str) -> TorchRuntime:
    """A module that `module:name` makes, with the weights of the folder if it has some."""
    module = named(folder, entry)()
    if not isinstance(module, torch.nn.Module):
        raise LoadError(f"{entry} makes a {type(module).__name__}; it has to make a torch.nn.Module.")
    weights = sorted([*folder.glob("*.pt"), *folder.glob("*.pth")])
    if len(weights) > 1:
        raise LoadError(f"{folder} has {len(weights)} files of weights; leave one .pt or .pth in it.")
    if weights:
        module.load_state_dict(torch.load(weights[0], map_location="cpu", weights_only=True))
    embeds = any(isinstance(part, torch.nn.Embedding) for part in module.modules())
    return TorchRuntime(module.eval(), embeds)


def _device() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _tensors(names: Sequence[Any], values: dict[str, Any]) -> list[Tensor]:
    """Dimensions that are symbols may have any size."""
    tensors = [(str(name), values.get(str(name))) for name in names]
    return [
        Tensor(
            name, DATATYPES.get(value.dtype, str(value.dtype)),
            tuple(size if isinstance(size, int) else -1 for size in value.shape),
        )
        for name, value in tensors if isinstance(value, torch.Tensor)
    ]  # fmt: skip
