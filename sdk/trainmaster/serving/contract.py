"""What a model runtime is to the server, and what a team's own class may be."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output as callers send and get it, as the metadata of the Open Inference Protocol has it."""

    name: str
    datatype: str
    shape: tuple[int, ...]  # -1: any size


class Runtime(Protocol):
    """A loaded model.

    All calls come from one thread, one at a time, except `prepare`, which only looks at its argument. A row is what a
    caller sent for one example. `predict` gets rows of equal shape and gives as many outputs in the same order. An
    exception fails the requests of that batch and no other. An iterator of `stream` is advanced between batches and
    closed when its caller has left.
    """

    streams: bool  # whether it has texts to stream
    inputs: Sequence[Tensor]  # empty where the form of the model does not say them
    outputs: Sequence[Tensor]

    def prepare(self, row: Any) -> Any:
        """The row as `predict` takes it. Raises ValueError with a sentence for one that the model cannot take."""

    def shape_of(self, row: Any) -> Hashable:
        """Only rows of equal shape share a batch."""

    def tokens_of(self, row: Any) -> int:
        """The length of the row, to which a batch pads the others; 0 where nothing is padded."""

    def predict(self, rows: Sequence[Any]) -> Sequence[Any]: ...

    def stream(self, row: dict[str, Any]) -> Iterator[str]:
        """The parts of a text, for {"prompt": …, "max_tokens": …, "temperature": …, "stop": […]}."""

    def close(self) -> None: ...
