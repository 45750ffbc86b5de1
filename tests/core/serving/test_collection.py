"""What of a request is kept as data: only with consent, and nothing that is redacted."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.serving.collection import Consent, as_lines, rows_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["age", "name", "x"]), inner),
    max_leaves=8,
)


def rows(request: Any, answer: Any, *redacted: str) -> list[dict[str, Any]]:
    return rows_of(json.dumps(request).encode(), json.dumps(answer).encode(), redacted)


@pytest.mark.parametrize(
    ("said", "asked", "kept"),
    [
        (None, True, False),
        (None, False, True),
        ("training, evaluation", True, True),
        ("Training,Evaluation,other", True, True),
        ("training", True, False),  # one data set is for both purposes
        ("none", False, False),
        ("training, evaluation, none", False, False),
        ("", False, False),
    ],
)
def test_a_request_is_kept_where_its_caller_agrees_to_every_purpose(
    said: str | None, asked: bool, kept: bool
) -> None:
    assert Consent(("training", "evaluation"), asked).given(said) == kept


def test_an_endpoint_without_purposes_keeps_nothing() -> None:
    assert not Consent((), asked=False).given("training")


def test_the_rows_of_each_protocol_come_with_their_answers() -> None:
    assert rows({"inputs": [[1, 2], [3, 4]]}, {"outputs": ["a", "b"]}) == [
        {"input": [1, 2], "output": "a"}, {"input": [3, 4], "output": "b"},
    ]  # fmt: skip
    tensor = {"inputs": [{"name": "x", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]}]}
    scalars = {"outputs": [{"name": "y", "shape": [2], "data": [0, 1]}]}
    assert rows(tensor, scalars) == [{"input": [1, 2], "output": 0}, {"input": [3, 4], "output": 1}]
    assert rows({"prompt": "once"}, {"choices": [{"index": 0, "text": " upon"}]}) == [
        {"input": "once", "output": " upon"}
    ]


@pytest.mark.parametrize(
    ("request_", "answer"), [({"inputs": [1, 2]}, {"outputs": [1]}), ([], {"outputs": [1]}), ({}, {})]
)
def test_what_does_not_belong_together_is_no_row(request_: Any, answer: Any) -> None:
    assert rows(request_, answer) == []


def test_what_is_redacted_is_left_out_with_all_that_is_in_it() -> None:
    person = {"age": 7, "name": {"first": "a"}, "marks": [1, 2, 3]}
    assert rows({"inputs": [person]}, {"outputs": [{"score": 1, "name": "a"}]}, "name", "1") == [
        {"input": {"age": 7, "marks": [1, None, 3]}, "output": {"score": 1}}
    ]
    assert rows({"inputs": [1]}, {"outputs": [2]}, "output") == [{"input": 1}]


@given(st.lists(JSON, min_size=1, max_size=3))
def test_no_redacted_name_is_left_anywhere(values: list[Any]) -> None:
    kept = json.dumps(rows({"inputs": values}, {"outputs": values}, "age"))
    assert '"age":' not in kept


def test_lines_have_what_is_known_of_their_request() -> None:
    text = as_lines([{"input": "ä", "output": 1}], request="r-1", version=2, label=None)
    assert json.loads(text) == {"request": "r-1", "version": 2, "input": "ä", "output": 1}
    assert text.endswith("\n")
