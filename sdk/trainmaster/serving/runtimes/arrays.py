"""What all runtimes of tensors share: rows of numbers become one batch, and its output as many rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from trainmaster.serving.contract import Tensor
from trainmaster.serving.runtimes.custom import LoadError


class ArrayRuntime(ABC):
    streams = False

    def __init__(
        self, whole_numbers: bool, inputs: Sequence[Tensor] = (), outputs: Sequence[Tensor] = ()
    ) -> None:
        """`whole_numbers`: whole numbers in JSON are indices of an embedding, not features."""
        self._whole_numbers = whole_numbers
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)

    @abstractmethod
    def run(self, batch: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]: ...

    def prepare(self, row: Any) -> np.ndarray[Any, Any]:
        array = self._array(row)
        known = self.inputs[0].shape[1:] if len(self.inputs) == 1 and self.inputs[0].shape else None
        if known is not None and not _fits(array.shape, known):
            wanted = ", ".join("any" if size < 0 else str(size) for size in known)
            raise ValueError(f"a row has the shape {list(array.shape)}; this model takes [{wanted}]")
        return array

    def _array(self, row: Any) -> np.ndarray[Any, Any]:
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
        output = self.run(np.stack(rows) if len(rows) > 1 else rows[0][None])
        if output.shape[:1] != (len(rows),):
            raise ValueError(
                f"the model gave {output.shape} for {len(rows)} rows; its first dimension must be theirs"
            )
        return list(output)

    def stream(self, row: dict[str, Any]) -> Iterator[str]:
        raise ValueError("this model has no texts; call /predict")

    @abstractmethod
    def close(self) -> None: ...


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    return len(shape) == len(wanted) and all(
        size in (given, -1) for given, size in zip(shape, wanted, strict=True)
    )


def model_file(folder: Path, entry: str, *endings: str) -> Path:
    """The file that the entry names, or the only one with such an ending."""
    if entry:
        if not (folder / entry).is_file():
            raise LoadError(f"{folder} has no file {entry}; correct the entry.")
        return folder / entry
    files = sorted(path for path in folder.iterdir() if path.suffix in endings)
    if len(files) != 1:
        wanted = " or ".join(endings)
        raise LoadError(f"{folder} has {len(files)} files {wanted}; name one of them as the entry.")
    return files[0]
