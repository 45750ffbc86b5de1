"""Labels that come later are compared with what was answered."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.drift.features import features_of
from platform_core.serving.quality import LEAST, Outcome, Quality, outcome, outputs_of

RIGHT, WRONG = Outcome(True, 0.0), Outcome(False, 1.0)


@pytest.mark.parametrize(
    ("answer", "label", "expected"),
    [
        (b'{"outputs": [[0.1, 0.7, 0.2]]}', 1, RIGHT),
        (b'{"outputs": [[0.1, 0.7, 0.2]]}', 2, WRONG),
        (b'{"outputs": [[0.1, 0.7, 0.2]]}', 3, None),
        (b'{"outputs": [[1.0, 2.0]]}', [1.0, 4.0], Outcome(False, 1.0)),
        (b'{"outputs": [[1.0, 2.0]]}', [1.0], None),
        (b'{"outputs": [[1.0, 2.0]]}', "cat", None),
        (b'{"outputs": [3.5]}', 3, Outcome(False, 0.5)),
        (b'{"outputs": [1.0]}', True, RIGHT),
        (b'{"outputs": ["cat"]}', "cat", RIGHT),
        (b'{"outputs": ["cat"]}', "dog", WRONG),
        (b'{"outputs": ["cat"]}', 1, None),
        (b'{"outputs": [true]}', True, RIGHT),
        (b'{"choices": [{"index": 0, "text": "yes"}]}', "yes", RIGHT),
        (b'{"outputs": [{"label": "cat"}]}', "cat", None),
    ],
)
def test_a_label_is_compared_as_its_answer_is_shaped(
    answer: bytes, label: Any, expected: Outcome | None
) -> None:
    assert outcome(outputs_of(features_of(b'{"inputs": [1]}', answer)), label) == expected


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40), st.data())
def test_the_greatest_score_is_the_class_also_of_many(scores: list[float], data: st.DataObject) -> None:
    label = data.draw(st.integers(0, len(scores) - 1))
    answer = repr({"outputs": [scores]}).replace("'", '"').encode()
    found = outcome(outputs_of(features_of(b'{"inputs": [1]}', answer)), label)
    assert found is not None
    assert found.correct == (scores.index(max(scores)) == label)


def test_no_answer_has_no_outcome() -> None:
    assert outcome({}, 1) is None
    assert outcome({"output.length": 900.0}, "text") is None


def test_too_few_labels_say_nothing() -> None:
    few, enough = Quality(500, LEAST - 1, 3, 0.5), Quality(500, LEAST, LEAST, 0.25)
    assert (few.value("accuracy"), few.value("error"), few.accuracy) == (None, None, 3 / (LEAST - 1))
    assert (enough.value("accuracy"), enough.value("error")) == (1.0, 0.25)
    assert Quality().accuracy is None
    assert math.isclose(enough.value("error") or 0, 0.25)
