"""Stands in for ONNX Runtime where it is not installed: runs a real ONNX file that is one MatMul."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


@dataclass(frozen=True)
class NodeArg:
    name: str
    type: str
    shape: list[Any]


class InferenceSession:
    def __init__(self, path: str, providers: list[str]) -> None:
        graph = one(Path(path).read_bytes(), 7)
        weights = one(graph, 5)
        shape = [size for number, size in fields(weights) if number == 1]
        self._weights = np.frombuffer(one(weights, 9), "<f4").reshape(shape)

    def get_inputs(self) -> list[NodeArg]:
        return [NodeArg("x", "tensor(float)", ["batch", self._weights.shape[0]])]

    def get_outputs(self) -> list[NodeArg]:
        return [NodeArg("y", "tensor(float)", ["batch", self._weights.shape[1]])]

    def run(self, names: list[str], feeds: dict[str, Any]) -> list[Any]:
        assert names == ["y"]
        return [feeds["x"] @ self._weights]


def get_available_providers() -> list[str]:
    return ["CPUExecutionProvider"]


def one(message: bytes, number: int) -> bytes:
    found = [value for key, value in fields(message) if key == number]
    if len(found) != 1:
        raise ValueError("no protobuf of this model")
    return found[0]


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Of a protobuf with whole numbers and bytes below 128."""
    place = 0
    while place < len(message):
        key, value, place = message[place], message[place + 1], place + 2
        if key & 7 == 2:
            yield key >> 3, message[place : place + value]
            place += value
        else:
            yield key >> 3, value
