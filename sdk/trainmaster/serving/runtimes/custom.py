"""A Python class of the team's own: `Model(folder)` with `predict(rows)`, and `stream(request)` for texts."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from trainmaster.serving.contract import Tensor


class LoadError(Exception):
    """The model cannot be loaded; the message is a sentence with the remedy."""


class CustomRuntime:
    """Wraps the class; `shape_of`, `tokens_of` and `prepare` are its own where it has them."""

    inputs: Sequence[Tensor] = ()
    outputs: Sequence[Tensor] = ()

    def __init__(self, folder: Path, entry: str) -> None:
        self._model = named(folder, entry)(folder)
        self.streams = hasattr(self._model, "stream")
        if not self.streams and not hasattr(self._model, "predict"):
            raise LoadError(f"{entry} has neither predict(rows) nor stream(request); give it one of them.")
        self._predict = getattr(self._model, "predict", None)

    def prepare(self, row: Any) -> Any:
        prepare = getattr(self._model, "prepare", None)
        return prepare(row) if prepare else row

    def shape_of(self, row: Any) -> Hashable:
        shape_of = getattr(self._model, "shape_of", None)
        if shape_of:
            return shape_of(row)  # type: ignore[no-any-return]
        return getattr(row, "shape", None)

    def tokens_of(self, row: Any) -> int:
        tokens_of = getattr(self._model, "tokens_of", None)
        return int(tokens_of(row)) if tokens_of else 0

    def predict(self, rows: Sequence[Any]) -> Sequence[Any]:
        if self._predict is None:
            raise ValueError("this model only streams texts; call /v1/completions")
        outputs = self._predict(rows)
        if outputs is None or isinstance(outputs, str | bytes | Mapping | Set):
            raise TypeError(
                f"predict(rows) answered a {type(outputs).__name__}; it must give one output a row, in their order"
            )
        return list(outputs)

    def stream(self, row: dict[str, Any]) -> Iterator[str]:
        parts: Iterator[str] = self._model.stream(row)
        return parts

    def close(self) -> None:
        close = getattr(self._model, "close", None)
        if close:
            close()


def load(folder: Path, entry: str) -> CustomRuntime:
    return CustomRuntime(folder, entry or "model:Model")


def named(folder: Path, entry: str) -> Any:
    """The object `module:name`, from the folder of the model or from that of the code, in which the server runs."""
    module, _, name = entry.partition(":")
    if not module or not name:
        raise LoadError(f'The entry is "{entry}"; it must be module:name, such as model:Model.')
    for place in (str(folder), str(Path.cwd())):
        if place not in sys.path:
            sys.path.insert(0, place)
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        where = f"{folder} and {Path.cwd()}"
        raise LoadError(f"There is no module {error.name}; looked in {where} and in this Python.") from error
    if found is None:
        raise LoadError(f"The module {module} has no {name}; correct the entry {entry}.")
    return found
