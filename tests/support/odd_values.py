"""What scripts really hand to a logger: names and values of every kind, as Hypothesis draws them."""

from __future__ import annotations

import argparse
import datetime
import decimal
import fractions
import math
from typing import Any

import numpy
import torch
from hypothesis import strategies as st


class Raises:
    """An object that can do nothing."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("no text")

    def __float__(self) -> float:
        raise RuntimeError("no number")


class RaisingMapping(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("no items")

    def keys(self) -> Any:
        raise RuntimeError("no keys")


class OnADevice:
    """As a tensor of another device: only `detach` and `item` lead to its number."""

    shape = ()

    def detach(self) -> OnADevice:
        return self

    def item(self) -> float:
        return 2.5

    def __float__(self) -> float:
        raise TypeError("can't convert a tensor of another device")


def _array_of(value: object) -> Any:
    array = numpy.empty(1, dtype=object)
    array[0] = value
    return array


ENDLESS: dict[str, Any] = {}
ENDLESS["itself"] = ENDLESS
DEEP: Any = []
for _ in range(3_000):
    DEEP = [DEEP]


def _one_of(values: list[Any]) -> st.SearchStrategy[Any]:
    """By their numbers: Hypothesis writes what it draws from, and some of these cannot be written."""
    return st.integers(0, len(values) - 1).map(lambda number: values[number])


GOOD = {"loss": 1.0, "acc/top-1": 0.5}
NAMES = st.one_of(
    st.text(st.characters(), max_size=8),
    _one_of(
        ["", " ", "\t\n", "a\0b", "\ud800", "a\ud800", "a?", "x" * 250, "y" * 251, "z" * 5_000, "m." * 150]
    ),
    _one_of([0, 1, 1.5, None, True, b"bytes", ("a", 1), frozenset({1}), math.nan, 10**400, Raises()]),
)
VALUES = st.one_of(
    st.floats(),
    st.integers(),
    st.text(st.characters(), max_size=20),
    _one_of(
        [
            10**400,
            -(10**400),
            10**5_000,
            1 << 63,
            -(1 << 63),
            (1 << 64) + 1,
            True,
            None,
            b"\xff",
            1j,
            math.nan,
            math.inf,
            -math.inf,
            "",
            "x" * 7_000,
            "x" * 400_000,
            "a\0b\ud800",
            [],
            {},
            [math.nan, 10**30],
            {"a": {"b": [1, None]}},
            {1: 2},
            {"k" * 300: 1},
            ENDLESS,
            DEEP,
            set(),
            range(3),
            list(range(5_000)),
            datetime.datetime(2026, 1, 1),
            decimal.Decimal("0.1"),
            decimal.Decimal("sNaN"),
            decimal.Decimal("1e999"),
            fractions.Fraction(1, 3),
            fractions.Fraction(10**400),
            numpy.float32(1.5),
            numpy.float64("nan"),
            numpy.int8(3),
            numpy.uint64(2**64 - 1),
            numpy.bool_(True),
            numpy.complex64(1j),
            numpy.str_("text"),
            numpy.datetime64("2026-01-01"),
            numpy.array(2.0),
            numpy.array([3.0]),
            numpy.array([[4]]),
            numpy.arange(3),
            numpy.zeros(10_000),
            numpy.array([]),
            numpy.array(["a", "b"]),
            _array_of(Raises()),
            torch.tensor(1.0, requires_grad=True),
            torch.tensor([2.0]),
            torch.zeros(3),
            torch.tensor(1, dtype=torch.int8),
            torch.tensor(True),
            torch.tensor(1.0, dtype=torch.bfloat16),
            torch.tensor(1j),
            torch.empty(1, device="meta"),
            OnADevice(),
            Raises(),
            RaisingMapping(a=1),
            argparse.Namespace(a=1),
            object,
            print,
            float,
            Exception("x"),
        ]
    ),
)
MAPPINGS = st.dictionaries(NAMES, VALUES, max_size=5)
STEPS = st.one_of(
    st.integers(0, 1_000),
    _one_of([numpy.int64(3), torch.tensor(4), 5.0, math.nan, math.inf, 2**70, None, "x", Raises()]),
)
