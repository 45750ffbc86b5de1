"""Tensors of KServe v2, in JSON and as bytes. A value that its datatype cannot hold is refused, never cast."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np

from trainmaster.serving.engine import ModelError
from trainmaster.serving.http import HttpError, parsed
from trainmaster.serving.outputs import as_array, json_bytes

Array = np.ndarray[Any, Any]
DTYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}
TEXTS = "BYTES"


def tensor_rows(body: bytes, json_length: int | None) -> tuple[dict[str, Any], list[Any]]:
    """The request of KServe v2 and the rows of its one input. With a length the tensor's bytes may follow the JSON.

    Raises HttpError 400 for what its datatype cannot hold: 300 in UINT8, "false" in BOOL, 1.5 in INT32, 1e39 in FP32.
    """
    document = parsed(body if json_length is None else body[:json_length])
    inputs = document.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        count = len(inputs) if isinstance(inputs, list) else "no"
        raise HttpError(400, f"the request has {count} inputs; this server takes one tensor")
    if not isinstance(document.get("id", ""), str):
        raise HttpError(400, f"the id is {document['id']!r}; it must be a text")
    tensor = inputs[0]
    name, shape = str(tensor.get("datatype")), tensor.get("shape")
    if name not in DTYPES:
        raise HttpError(400, f"the datatype {name} is not one of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or not shape or not all(type(size) is int and size > 0 for size in shape):
        raise HttpError(400, f"the shape {shape} must be a list of whole numbers from 1")
    try:
        if json_length is None or tensor.get("data") is not None:
            array = _of_json(name, tensor.get("data"), shape)
        else:
            array = _of_bytes(name, body[json_length:], tensor.get("parameters"), shape)
    except (ValueError, TypeError, OverflowError) as error:
        raise HttpError(400, f"the data is no {name} tensor of shape {shape}: {error}") from error
    return document, list(array)


def _of_json(name: str, data: Any, shape: list[int]) -> Array:
    values = _flat(data, shape)
    kinds = set(map(type, values))
    if unfit := kinds - ({bool} if name == "BOOL" else {int, float}):
        wrong = next(value for value in values if type(value) in unfit)
        raise ValueError(f"{json.dumps(wrong)} is no {name}")
    dtype = np.dtype(DTYPES[name])
    if dtype.kind in "iu":
        _check_whole(values, dtype)
        values = [int(value) for value in values] if float in kinds else values
    array = np.array(values, dtype=np.float64 if dtype.kind == "f" else dtype)
    with np.errstate(over="ignore"):
        narrow = array.astype(dtype)
    if dtype.kind == "f" and not np.isfinite(narrow).all():
        raise ValueError(f"{array[~np.isfinite(narrow)][0]:g} is beyond {name}")
    return narrow.reshape(shape)


def _check_whole(values: Sequence[int | float], dtype: np.dtype[Any]) -> None:
    limits = np.iinfo(dtype)
    for extreme in (min(values), max(values)):
        if not limits.min <= extreme <= limits.max:
            raise ValueError(f"{extreme} is not within {limits.min} to {limits.max}")
    broken = next((value for value in values if isinstance(value, float) and not value.is_integer()), None)
    if broken is not None:
        raise ValueError(f"{broken} is no whole number")


def _flat(data: Any, shape: list[int]) -> Sequence[Any]:
    """The values row by row; they are sent in one list, or in lists within lists of exactly this shape."""
    if not isinstance(data, list):
        raise ValueError("its values must stand in a list")
    values, place = data, 0
    while values and isinstance(values[0], list):
        if place + 1 >= len(shape) or any(
            not isinstance(part, list) or len(part) != shape[place + 1] for part in values
        ):
            raise ValueError("its lists have another shape")
        values, place = list(chain.from_iterable(values)), place + 1
    wanted = int(np.prod(shape, dtype=object))
    if len(values) != wanted or (place and (place + 1 != len(shape) or len(data) != shape[0])):
        raise ValueError(f"it has {len(values)} values in lists {place + 1} deep; {wanted} make that shape")
    return values


def _of_bytes(name: str, raw: bytes, parameters: Any, shape: list[int]) -> Array:
    stated = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if stated is not None and stated != len(raw):
        raise ValueError(f"binary_data_size is {stated}, and {len(raw)} bytes follow the JSON")
    array = np.frombuffer(raw, dtype=DTYPES[name]).reshape(shape)
    if name == "BOOL" and array.view("u1").max() > 1:
        raise ValueError(f"the byte {array.view('u1').max()} is neither 0 nor 1")
    return array.copy()


def tensor_answer(
    document: dict[str, Any], model: str, version: str, outputs: Sequence[Any], binary: bool
) -> tuple[bytes, int]:
    """The body of an answer of KServe v2, and how many bytes of it are JSON. In JSON, NaN and infinities are null.

    Raises ModelError for outputs of different shapes, or of a type that the protocol does not have.
    """
    datatype, array = _typed(outputs)
    tensor: dict[str, Any] = {"name": "output", "datatype": datatype, "shape": list(array.shape)}
    raw = b""
    if binary:
        raw = _raw(datatype, array)
        tensor["parameters"] = {"binary_data_size": len(raw)}
    else:
        tensor["data"] = array.ravel().tolist()
    head: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": [tensor]}
    if "id" in document:
        head["id"] = document["id"]
    encoded = json_bytes(head)
    return encoded + raw, len(encoded)


def _typed(outputs: Sequence[Any]) -> tuple[str, Array]:
    try:
        array = np.stack([np.asarray(as_array(output)) for output in outputs])
    except ValueError as error:
        raise ModelError(f"the model answered rows that make no tensor: {error}") from error
    if array.dtype.kind in "biuf":
        name = NAMES.get(array.dtype.newbyteorder("<"))
        return (name, array) if name else ("FP64", array.astype(np.float64))
    if all(isinstance(value, str) for value in array.ravel().tolist()):
        return TEXTS, array
    raise ModelError(f"the model answered {_kind(array)}; a tensor has numbers or texts")


def _kind(array: Array) -> str:
    if array.dtype.kind != "O":
        return str(array.dtype)
    return "a " + next(type(value).__name__ for value in array.ravel().tolist() if not isinstance(value, str))


def _raw(datatype: str, array: Array) -> bytes:
    """Little-endian, row by row; a text is its length in four bytes and its UTF-8."""
    if datatype != TEXTS:
        return np.ascontiguousarray(array, dtype=DTYPES[datatype]).tobytes()
    texts = [str(value).encode("utf-8", "replace") for value in array.ravel().tolist()]
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)
