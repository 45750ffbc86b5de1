"""What is kept of a request and its answer: features of the first row, never more than is bounded."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.drift.features import (
    LARGEST_EMBEDDING,
    MOST_FEATURES,
    features_of,
    largest_slices,
    slices_of,
)


def features(request: Any, answer: Any, *redacted: str) -> dict[str, Any]:
    return features_of(json.dumps(request).encode(), json.dumps(answer).encode(), redacted)


def test_rows_of_plain_json_have_features_by_name() -> None:
    asked = {"inputs": [{"age": 41, "city": "Bern", "member": True, "bio": "x" * 99}, {"age": 1}]}
    assert features(asked, {"outputs": [[0.25, 0.75], [1, 0]], "version": 3}) == {
        "input.age": 41.0, "input.city": "Bern", "input.member": "true", "input.bio.length": 99.0,
        "output[0]": 0.25, "output[1]": 0.75,
    }  # fmt: skip


def test_redacted_names_are_left_out_with_all_that_is_in_them() -> None:
    asked = {"inputs": [{"age": 41, "person": {"name": "Ada", "years": [1, 2]}}]}
    assert features(asked, {"outputs": [1]}, "age", "person") == {"output": 1.0}
    assert features(asked, {"outputs": [1]}, "output", "years") == {
        "input.age": 41.0,
        "input.person.name": "Ada",
    }


def test_tensors_and_completions_are_read_too() -> None:
    tensor = {"name": "input", "datatype": "FP32", "shape": [2, 2], "data": [1, 2, 3, 4]}
    answer = {"outputs": [{"name": "output", "datatype": "FP32", "shape": [2], "data": [5, 6]}]}
    assert features({"inputs": [tensor]}, answer) == {"input[0]": 1.0, "input[1]": 2.0, "output": 5.0}
    completion = {"choices": [{"index": 0, "text": "y" * 100}]}
    assert features({"prompt": "hello"}, completion) == {"input": "hello", "output.length": 100.0}


def test_long_lists_are_embeddings_and_longer_ones_two_numbers() -> None:
    assert features({"inputs": [[0.5] * 64]}, {"outputs": [0]})["input"] == [0.5] * 64
    long = features({"inputs": [[1.0] * (LARGEST_EMBEDDING + 1)]}, {"outputs": [0]})
    assert long == {"input.mean": 1.0, "input.deviation": 0.0, "output": 0.0}
    many = features({"inputs": [{str(n): n for n in range(1_000)}]}, {"outputs": [0]})
    assert len(many) == MOST_FEATURES


@pytest.mark.parametrize(
    ("request_", "answer"),
    [(b"\xff", b"{}"), (b"[]", b"[]"), (b"{}", b"not JSON"), (b'{"inputs": []}', b'{"outputs": null}')],
)
def test_what_has_no_known_shape_has_no_features(request_: bytes, answer: bytes) -> None:
    assert features_of(request_, answer) == {}


def test_numbers_that_no_json_holds_are_left_out() -> None:
    assert features_of(b'{"inputs": [[NaN, 1e999, 2]]}', b'{"outputs": [Infinity]}') == {"input[2]": 2.0}


def test_texts_and_whole_numbers_make_slices() -> None:
    known = {"input.language": "de", "input.age": 31.0, "input.weight": 71.5, "output[0]": 2.0}
    assert slices_of(known, ("language", "age", "weight")) == ("input.language = de", "input.age = 31")
    assert slices_of(known, ()) == ()


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True).map(tuple)), st.integers(0, 6))
def test_only_the_largest_slices_are_looked_at(rows: list[tuple[str, ...]], most: int) -> None:
    chosen = largest_slices(rows, most)
    counts = {name: sum(name in row for row in rows) for row in rows for name in row}
    assert len(chosen) == min(most, len(counts))
    assert all(counts[inside] >= counts[out] for inside in chosen for out in counts.keys() - chosen)
