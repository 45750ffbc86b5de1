"""What a model answered, as JSON and as arrays. What neither can hold is a fault of the model, in a sentence."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from trainmaster.serving.engine import ModelError

ANSWERS = "answer numbers, texts, lists, mappings, NumPy arrays or tensors"


def json_bytes(document: Any) -> bytes:
    """Strict JSON (RFC 8259) of a document with outputs in it: NaN and the infinities become null.

    Raises ModelError for a type that JSON does not have, for whole numbers of thousands of digits and for values that
    hold themselves.
    """
    try:
        return json.dumps(_plain(document), allow_nan=False).encode()
    except RecursionError as error:
        raise ModelError("the model answered values that are nested too deeply for JSON") from error
    except ValueError as error:
        raise ModelError(f"the model answered what JSON cannot hold: {error}") from error


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "biu":
        return value.tolist()
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    as_list = getattr(as_array(value), "tolist", None)
    if as_list is None:
        raise ModelError(f"the model answered a {type(value).__name__}; {ANSWERS}")
    return _plain(as_list())


def _text(value: str) -> str:
    """Without the halves of surrogate pairs, which no strict reader of JSON takes."""
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def as_array(value: Any) -> Any:
    """A tensor of PyTorch or TensorFlow as a NumPy array, wherever it lies; anything else as it is."""
    detach, numpy = getattr(value, "detach", None), getattr(value, "numpy", None)
    if detach is not None:
        value = detach().cpu()
        if str(value.dtype) == "torch.bfloat16":  # NumPy has no such type
            value = value.float()
        return value.numpy()
    return value if numpy is None else numpy()
