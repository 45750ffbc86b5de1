"""Which answers of two versions to the same request are alike."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.serving.comparison import CLOSE, Comparison, compare

NUMBERS = st.floats(-1e6, 1e6)
ROWS = st.one_of(st.text(max_size=8), NUMBERS, st.lists(NUMBERS, min_size=1, max_size=4))


def compared(answer: Any, other: Any) -> Comparison | None:
    return compare(json.dumps(answer).encode(), json.dumps(other).encode())


@pytest.mark.parametrize(
    ("answer", "other", "alike", "difference"),
    [
        ({"outputs": [[0.1, 0.7, 0.2]]}, {"outputs": [[0.2, 0.5, 0.3]]}, True, 0.4 / 3),  # the same class
        ({"outputs": [[0.1, 0.7, 0.2]]}, {"outputs": [[0.5, 0.3, 0.2]]}, False, 0.8 / 3),
        ({"outputs": [1.0, 2.0]}, {"outputs": [1.0, 2.0001]}, True, 0.00005),
        ({"outputs": [1.0, 2.0]}, {"outputs": [1.0, 2.5]}, False, 0.25),
        ({"outputs": ["cat"]}, {"outputs": ["cat"]}, True, 0.0),
        ({"outputs": ["cat"]}, {"outputs": ["dog"]}, False, 1.0),
        ({"choices": [{"index": 0, "text": "a b"}]}, {"choices": [{"index": 0, "text": "a c"}]}, False, 1.0),
        (
            {"outputs": [{"name": "y", "shape": [2, 2], "data": [0, 1, 1, 0]}]},
            {"outputs": [{"name": "y", "shape": [2, 2], "data": [0, 2, 0, 1]}]},
            False,  # of the second row
            0.75,
        ),
    ],
)
def test_answers_of_each_protocol_are_compared_row_by_row(
    answer: Any, other: Any, alike: bool, difference: float
) -> None:
    found = compared(answer, other)
    assert found is not None
    assert (found.alike, found.difference) == (alike, pytest.approx(difference))


@pytest.mark.parametrize(
    ("answer", "other"),
    [
        ({"outputs": [[1, 2]]}, {"outputs": [[1, 2, 3]]}),
        ({"outputs": [1]}, {"outputs": ["one"]}),
        ({"outputs": [1, 2]}, {"outputs": [1]}),
        ({"outputs": []}, {"outputs": []}),
        ({"outputs": [{"score": 1}]}, {"outputs": [{"score": 1}]}),
        ({"outputs": [True]}, {"outputs": [True]}),
        ({"error": "no"}, {"outputs": [1]}),
        ([1], [1]),
    ],
)
def test_other_shapes_and_other_documents_are_not_compared(answer: Any, other: Any) -> None:
    assert compared(answer, other) is None
    assert compare(b"data: {}", b"\xff") is None


@given(st.lists(ROWS, min_size=1, max_size=4))
def test_an_answer_is_like_itself(rows: list[Any]) -> None:
    assert compared({"outputs": rows}, {"outputs": rows}) == Comparison(alike=True, difference=0.0)


@given(NUMBERS, NUMBERS)
def test_the_order_of_two_versions_does_not_matter(one: float, other: float) -> None:
    found = compared({"outputs": [one]}, {"outputs": [other]})
    assert found == compared({"outputs": [other]}, {"outputs": [one]})
    assert found is not None
    assert found.alike == math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)
