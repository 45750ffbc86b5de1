"""Tensors in the format of safetensors: the length of a header, the header as JSON, then the bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
_DTYPES = {name: dtype for dtype, name in _NAMES.items()}


def write(tensors: Mapping[str, torch.Tensor], path: Path) -> None:
    """Raises ValueError for a tensor that the format does not know. Tied weights are written once each."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise ValueError(f"safetensors has no name for {tensor.dtype} of {name}")
        size = tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [at, at + size],
        }  # fmt: skip
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for tensor in tensors.values():
            if tensor.numel():
                flat = tensor.detach().cpu().contiguous().reshape(-1)
                stream.write(flat.view(torch.uint8).numpy().tobytes())


def read(path: Path) -> dict[str, torch.Tensor]:
    with path.open("rb") as stream:
        header = json.loads(stream.read(int.from_bytes(stream.read(8), "little")))
        begin = stream.tell()
        tensors = {}
        for name, row in header.items():
            if name == "__metadata__":
                continue
            first, last = row["data_offsets"]
            stream.seek(begin + first)
            data = np.frombuffer(bytearray(stream.read(last - first)), np.uint8)
            flat = torch.from_numpy(data).view(_DTYPES[row["dtype"]]) if last > first else torch.empty(0)
            tensors[name] = flat.to(_DTYPES[row["dtype"]]).reshape(row["shape"])
    return tensors
