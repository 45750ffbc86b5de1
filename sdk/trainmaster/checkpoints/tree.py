"""A state taken apart: its tensors by name, and a structure that puts them together again.

The structure is made of lists, tuples and plain values, so it loads without running code.
"""

from __future__ import annotations

import io
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_PLAIN = (type(None), bool, int, float, str)
_DICT, _ORDERED, _LIST, _TUPLE, _TENSOR, _VALUE = "dict", "ordered", "list", "tuple", "tensor", "value"


@dataclass(slots=True)
class Tree:
    structure: Any
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)


def take_apart(state: Mapping[str, Any]) -> Tree:
    """TypeError for what would run code when it is loaded: at the first save, and not when it is needed."""
    tree = Tree(None)
    tree.structure = _encode(state, "", tree.tensors)
    return tree


def put_together(structure: Any, tensor: Callable[[str], Any]) -> Any:
    """`tensor` gives each tensor by its name."""
    kind, content, *attributes = structure
    if kind == _TENSOR:
        return tensor(content)
    if kind == _VALUE:
        return content
    if kind in (_LIST, _TUPLE):
        items = [put_together(item, tensor) for item in content]
        return items if kind == _LIST else tuple(items)
    pairs = {key: put_together(item, tensor) for key, item in content}
    if kind == _DICT:
        return pairs
    ordered = OrderedDict(pairs)
    if attributes:  # the versions that a module's state_dict() carries
        ordered._metadata = attributes[0]  # type: ignore[attr-defined]
    return ordered


def merge(structures: list[Any]) -> Any:
    """One structure with the entries of all; of two at the same place the first stays."""
    merged, *others = structures
    for other in others:
        merged = _merged(merged, other)
    return merged


def _merged(first: Any, second: Any) -> Any:
    if first[0] not in (_DICT, _ORDERED) or second[0] not in (_DICT, _ORDERED):
        return first
    pairs, more = dict(first[1]), dict(second[1])
    both = {key: _merged(item, more[key]) if key in more else item for key, item in pairs.items()}
    return (first[0], list({**more, **both}.items()), *first[2:])


def shape_of(structure: Any) -> Any:
    """The structure without its values: what stays the same from save to save."""
    kind, content, *_ = structure
    if kind in (_LIST, _TUPLE):
        return kind, tuple(shape_of(item) for item in content)
    if kind in (_DICT, _ORDERED):
        return kind, tuple((key, shape_of(item)) for key, item in content)
    return kind, content if kind == _TENSOR else None


def _encode(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    import torch

    if isinstance(value, torch.Tensor) and _is_plain(value):
        name = path or "tensor"
        while name in tensors:  # {"a.b": …, "a": {"b": …}}
            name += "'"
        tensors[name] = value.detach()
        return _TENSOR, name
    if isinstance(value, Mapping):
        kind = _ORDERED if isinstance(value, OrderedDict) else _DICT
        pairs = [
            (_checked(key, path), _encode(item, _join(path, key), tensors)) for key, item in value.items()
        ]
        versions = getattr(value, "_metadata", None)
        return (kind, pairs, _checked(versions, path)) if versions else (kind, pairs)
    if type(value) in (list, tuple):
        kind = _LIST if type(value) is list else _TUPLE
        return kind, [_encode(item, _join(path, index), tensors) for index, item in enumerate(value)]
    return _VALUE, _checked(value, path)


def _is_plain(value: torch.Tensor) -> bool:
    import torch

    return value.layout is torch.strided and not value.is_quantized and value.device.type != "meta"


def _join(path: str, key: object) -> str:
    return f"{path}.{key}" if path else str(key)


def _checked(value: Any, path: str) -> Any:
    if type(value) in _PLAIN:
        return value
    import torch

    written = io.BytesIO()
    try:
        torch.save(value, written)
        written.seek(0)
        torch.load(written, map_location="cpu", weights_only=True)
    except Exception as error:
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        raise TypeError(
            f"the state holds {kind} at {path or 'its top'}, which would run code when it is loaded; "
            "save state_dict()s, tensors, numbers, texts, lists and dicts"
        ) from error
    return value
