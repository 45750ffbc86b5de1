"""The tensors in a file of weights: how long each is as a vector, and whether all its values are finite."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platform_core.errors import TrainmasterError

if TYPE_CHECKING:
    import numpy as np

_HEADER = 100 << 20  # the largest of a safetensors file
_BLOCK = 1 << 22  # values at a time
_TORCH = frozenset({".pt", ".pth", ".bin", ".ckpt"})
_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
_WIDTH = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}


def measured(path: Path) -> dict[str, dict[str, Any]]:
    """Name → `{"numbers", "not_finite", "norm"}` of the floating-point tensors; {} for a file of another kind.

    Raises TrainmasterError of request_invalid for a file that cannot be read as what its name says.
    """
    try:
        if path.suffix == ".safetensors":
            return {name: _sums(values) for name, values in _safetensors(path)}
        if path.suffix in _TORCH:
            return {name: _sums(values) for name, values in _torch(path)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TrainmasterError("request_invalid", what=f"the file {path.name}", why=str(error)) from error
    return {}


def _sums(blocks: Iterator[np.ndarray]) -> dict[str, Any]:
    import numpy as np

    numbers = not_finite = 0
    square = 0.0
    for block in blocks:
        finite = np.isfinite(block)
        numbers += block.size
        not_finite += int(block.size - finite.sum())
        square += float(np.square(block[finite], dtype=np.float64).sum())
    return {"numbers": numbers, "not_finite": not_finite, "norm": math.sqrt(square)}


def _safetensors(path: Path) -> Iterator[tuple[str, Iterator[np.ndarray]]]:
    """Each tensor in blocks, so that a file of any size fits the memory."""
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if not 0 < length <= _HEADER:
            raise ValueError(f"its header has {length:,} bytes, so it is not of safetensors")
        header = json.loads(stream.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no object of JSON, so it is not of safetensors")
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["dtype"] in _WIDTH:
            begin, end = tensor["data_offsets"]
            yield name, _blocks(path, 8 + length + begin, end - begin, tensor["dtype"])


def _blocks(path: Path, begin: int, size: int, dtype: str) -> Iterator[np.ndarray]:
    import numpy as np

    with path.open("rb") as stream:
        stream.seek(begin)
        while size > 0:
            data = stream.read(min(size, _BLOCK * _WIDTH[dtype]))
            if not data:
                raise ValueError(f"it ends {size:,} bytes too early")
            size -= len(data)
            if dtype == "BF16":  # the upper half of a float of 32 bits
                yield (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
            else:
                yield np.frombuffer(data, _NUMPY[dtype])


def _torch(path: Path) -> Iterator[tuple[str, Iterator[np.ndarray]]]:
    try:
        import torch
    except ImportError as error:
        raise ValueError(f"torch is needed to read it: {error}") from error
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # pickle raises whatever it finds
        raise ValueError(f"torch cannot read it as weights alone: {error}") from error
    for name, tensor in _tensors("", state):
        if tensor.is_floating_point():
            yield name, iter([tensor.detach().to(torch.float64).flatten().numpy()])


def _tensors(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if hasattr(value, "is_floating_point"):
        yield name or "tensor", value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _tensors(f"{name}.{key}" if name else str(key), inner)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from _tensors(f"{name}[{index}]", inner)
