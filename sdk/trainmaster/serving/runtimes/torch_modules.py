"""PyTorch modules: TorchScript files, exported programs, and eager modules with their weights."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from trainmaster.serving.runtimes.custom import LoadError, named


class TorchRuntime:
    """Stacks the rows, runs the module once, and cuts its output into rows. It uses the GPU where there is one."""

    streams = False

    def __init__(self, module: Any, whole_numbers: bool) -> None:
        """`whole_numbers`: whole numbers in JSON are indices of an embedding, not features."""
        self._whole_numbers = whole_numbers
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._module = module.to(self._device) if isinstance(module, torch.nn.Module) else module

    def prepare(self, row: Any) -> np.ndarray[Any, Any]:
        if isinstance(row, np.ndarray):  # its caller named the type
            return row
        try:
            array = np.asarray(row)
        except ValueError as error:
            raise ValueError(f"a row is no tensor: {error}") from error
        if array.dtype.kind not in "biuf":
            raise ValueError(f"a row has to be numbers, not {array.dtype}")
        is_index = self._whole_numbers and array.dtype.kind in "iu"
        return array.astype(np.int64 if is_index else np.float32)

    def shape_of(self, row: Any) -> Hashable:
        return row.shape, row.dtype.str

    def tokens_of(self, row: Any) -> int:
        return int(row.shape[0]) if row.dtype.kind in "iu" and row.ndim else 0

    def predict(self, rows: Sequence[Any]) -> Sequence[Any]:
        batch = torch.from_numpy(np.stack(rows) if len(rows) > 1 else rows[0][None])
        with torch.inference_mode():
            output = self._module(batch.to(self._device))
        if not isinstance(output, torch.Tensor):
            raise TypeError(f"the module gave {type(output).__name__}; a server answers with one tensor")
        if output.shape[:1] != (len(rows),):
            shape = tuple(output.shape)
            raise ValueError(
                f"the module gave {shape} for {len(rows)} rows; its first dimension must be theirs"
            )
        return list(output.float().cpu().numpy() if output.is_floating_point() else output.cpu().numpy())

    def stream(self, row: dict[str, Any]) -> Iterator[str]:
        raise ValueError("this model has no texts; call /predict")

    def close(self) -> None:
        self._module = None


def scripted(folder: Path, entry: str) -> TorchRuntime:
    """A module that `torch.jit.save` wrote."""
    place = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    module = torch.jit.load(str(_file(folder, entry, ".pt", ".ts")), map_location=place).eval()  # type: ignore[no-untyped-call]
    return TorchRuntime(module, any(part.original_name.startswith("Embedding") for part in module.modules()))


def exported(folder: Path, entry: str) -> TorchRuntime:
    """A program that `torch.export.save` wrote, with a dynamic first dimension."""
    program = torch.export.load(str(_file(folder, entry, ".pt2")))
    arguments = program.example_inputs[0] if program.example_inputs else ()
    whole = any(isinstance(one, torch.Tensor) and not one.is_floating_point() for one in arguments)
    return TorchRuntime(program.module(), whole)


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


def _file(folder: Path, entry: str, *endings: str) -> Path:
    if entry:
        return folder / entry
    files = sorted(path for path in folder.iterdir() if path.suffix in endings)
    if len(files) != 1:
        wanted = " or ".join(endings)
        raise LoadError(f"{folder} has {len(files)} files {wanted}; name one of them as the entry.")
    return files[0]
