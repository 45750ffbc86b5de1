"""What the protocols say about rows: plain JSON, KServe v2 with and without its binary tensors, completions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from trainmaster.serving.http import HttpError, parsed

DTYPES = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8", "INT8": "i1", "INT16": "<i2",
    "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
NAMES = {np.dtype(code): name for name, code in DTYPES.items()}
MOST_TOKENS = 4_096


def plain_rows(document: dict[str, Any]) -> list[Any]:
    rows = document.get("inputs")
    if not isinstance(rows, list) or not rows:
        raise HttpError(400, 'the body must be {"inputs": [row, …]} with at least one row')
    return rows


def as_json(value: Any) -> Any:
    """An output in lists and numbers."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, dict):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(part) for part in value]
    return value


def tensor_rows(body: bytes, json_length: int | None) -> tuple[dict[str, Any], list[Any]]:
    """The request of KServe v2 and the rows of its one input. With a length the tensor's bytes follow the JSON."""
    document = parsed(body if json_length is None else body[:json_length])
    inputs = document.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        count = len(inputs) if isinstance(inputs, list) else "no"
        raise HttpError(400, f"the request has {count} inputs; this server takes one tensor")
    tensor = inputs[0]
    dtype, shape = DTYPES.get(str(tensor.get("datatype"))), tensor.get("shape")
    if dtype is None:
        raise HttpError(400, f"the datatype {tensor.get('datatype')} is not one of {', '.join(DTYPES)}")
    if not isinstance(shape, list) or not shape or not all(type(size) is int and size > 0 for size in shape):
        raise HttpError(400, f"the shape {shape} must be a list of whole numbers from 1")
    try:
        if json_length is None:
            array = np.asarray(tensor.get("data"), dtype=dtype).reshape(shape)
        else:
            array = np.frombuffer(body, dtype=dtype, offset=json_length).reshape(shape)
    except (ValueError, TypeError) as error:
        raise HttpError(
            400, f"the data is no {tensor['datatype']} tensor of shape {shape}: {error}"
        ) from error
    return document, list(array.copy() if json_length is not None else array)


def tensor_answer(
    document: dict[str, Any], model: str, version: str, outputs: Sequence[Any], binary: bool
) -> tuple[bytes, int]:
    """The body of an answer of KServe v2, and how many bytes of it are JSON."""
    array = np.stack([np.asarray(output) for output in outputs])
    datatype = NAMES.get(array.dtype)
    if datatype is None:
        array, datatype = array.astype(np.float64), "FP64"
    tensor: dict[str, Any] = {"name": "output", "datatype": datatype, "shape": list(array.shape)}
    raw = b""
    if binary:
        raw = np.ascontiguousarray(array).tobytes()
        tensor["parameters"] = {"binary_data_size": len(raw)}
    else:
        tensor["data"] = array.ravel().tolist()
    head: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": [tensor]}
    if "id" in document:
        head["id"] = document["id"]
    encoded = json.dumps(head).encode()
    return encoded + raw, len(encoded)


def completion(document: dict[str, Any]) -> dict[str, Any]:
    """The row of a request of the completions protocol, its values checked."""
    prompt = document.get("prompt", "")
    if isinstance(prompt, list) and len(prompt) == 1:
        prompt = prompt[0]
    if not isinstance(prompt, str):
        raise HttpError(400, "the prompt must be one text")
    tokens = document.get("max_tokens")
    tokens = 16 if tokens is None else tokens
    if type(tokens) is not int or not 1 <= tokens <= MOST_TOKENS:
        raise HttpError(400, f"max_tokens is {tokens!r}; 1 to {MOST_TOKENS} are possible")
    temperature = document.get("temperature")
    temperature = 1.0 if temperature is None else temperature
    if not isinstance(temperature, int | float) or not 0 <= temperature <= 2:
        raise HttpError(400, f"the temperature is {temperature!r}; 0 to 2 are possible")
    stop = document.get("stop") or []
    stop = [stop] if isinstance(stop, str) else stop
    if not isinstance(stop, list) or not all(isinstance(text, str) and text for text in stop):
        raise HttpError(400, "stop must be a text or a list of texts")
    return {
        "prompt": prompt, "max_tokens": tokens, "temperature": float(temperature), "stop": stop,
        "seed": document.get("seed"),
    }  # fmt: skip
