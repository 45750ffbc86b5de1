"""The signature of a model: the tensors that it takes and gives, read from mappings of JSON and written as such."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platform_core.errors import TrainmasterError

SIDES = ("inputs", "outputs")
MOST_TENSORS, MOST_DIMENSIONS, LONGEST_NAME = 64, 16, 120


@dataclass(frozen=True, slots=True)
class Tensor:
    dtype: str
    shape: tuple[int | None, ...]  # None: as many as the caller sends
    name: str = ""

    def __str__(self) -> str:
        """ "float32 [any, 8]" """
        shape = ", ".join("any" if size is None else str(size) for size in self.shape)
        return f"{self.name} {self.dtype} [{shape}]".lstrip()


@dataclass(frozen=True, slots=True)
class Signature:
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]


EMPTY = Signature((), ())


def read(document: Any) -> Signature:
    """Raises request_invalid with what is wrong. An empty mapping is the empty signature."""
    if not isinstance(document, Mapping) or set(document) - set(SIDES):
        raise _invalid(f"it must be an object with {' and '.join(SIDES)}")
    if not document:
        return EMPTY
    return Signature(*(_tensors(document.get(side), side) for side in SIDES))


def as_mapping(signature: Signature) -> dict[str, Any]:
    if signature == EMPTY:
        return {}
    return {side: [_written(tensor) for tensor in getattr(signature, side)] for side in SIDES}


def _tensors(rows: Any, side: str) -> tuple[Tensor, ...]:
    if not isinstance(rows, list) or not 0 < len(rows) <= MOST_TENSORS:
        raise _invalid(f"{side} must be a list of 1 to {MOST_TENSORS} tensors")
    return tuple(_tensor(row, side) for row in rows)


def _tensor(row: Any, side: str) -> Tensor:
    fields = row if isinstance(row, Mapping) else {}
    name, dtype, shape = fields.get("name", ""), fields.get("dtype"), fields.get("shape")
    if not isinstance(dtype, str) or not 0 < len(dtype) <= 30:
        raise _invalid(f"a tensor of {side} needs a dtype, such as float32")
    if not isinstance(name, str) or len(name) > LONGEST_NAME:
        raise _invalid(f"the name of a tensor of {side} must be text, at most {LONGEST_NAME} characters")
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS or not all(map(_is_size, shape)):
        raise _invalid(f"the shape of a tensor of {side} must be a list of sizes, null for any")
    return Tensor(dtype, tuple(shape), name)


def _is_size(value: Any) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53)


def _written(tensor: Tensor) -> dict[str, Any]:
    named = {"name": tensor.name} if tensor.name else {}
    return {**named, "dtype": tensor.dtype, "shape": list(tensor.shape)}


def _invalid(why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what="the signature", why=why)
