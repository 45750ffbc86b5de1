"""A run beside its repetition."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.reproduction import (
    SUBJECTS,
    Agreement,
    MadeOf,
    metrics,
    sentence,
    subjects,
)

MADE = MadeOf({"bundle": "man-1"}, {}, {"image": ""}, {"torch": "2.4"}, {"GPU type": "cpu"}, {"seed": "1"})
numbers = st.floats(allow_nan=True, allow_infinity=True)
values = st.dictionaries(st.sampled_from("abcde"), numbers)


@given(values)
def test_a_run_is_identical_with_itself(run: dict[str, float]) -> None:
    assert {row.agreement for row in metrics(run, run)} <= {Agreement.IDENTICAL}


@given(values, values)
def test_each_metric_of_either_is_judged_once_the_same_both_ways(
    before: dict[str, float], after: dict[str, float]
) -> None:
    there, back = metrics(before, after), metrics(after, before)
    assert sorted(row.name for row in there) == sorted(before.keys() | after.keys())
    assert {(row.name, row.agreement, row.deviation) for row in there} == {
        (row.name, row.agreement, row.deviation) for row in back
    }
    assert all(0 <= row.deviation <= 2 for row in there if row.deviation is not None)


@pytest.mark.parametrize(
    ("before", "after", "agreement"),
    [
        (2.0, 2.0, Agreement.IDENTICAL),
        (2.0, 2.019, Agreement.AGREES),
        (2.0, 2.05, Agreement.DIFFERS),
        (0.0, 1e-9, Agreement.DIFFERS),
        (float("nan"), float("nan"), Agreement.IDENTICAL),
        (1.0, float("nan"), Agreement.DIFFERS),
        (float("inf"), float("-inf"), Agreement.DIFFERS),
        (1e308, -1e308, Agreement.DIFFERS),
    ],
)
def test_how_two_values_agree(before: float, after: float, agreement: Agreement) -> None:
    [row] = metrics({"loss": before}, {"loss": after})
    assert row.agreement is agreement


def test_the_same_making_differs_in_nothing() -> None:
    assert [(row.name, row.known, row.changes) for row in subjects(MADE, MADE)] == [
        (name, True, ()) for name in SUBJECTS
    ]


def test_what_differs_stands_under_its_subject() -> None:
    other = replace(MADE, packages={"torch": "2.5"}, hardware={})
    found = {row.name: row for row in subjects(MADE, other)}
    assert [(change.before, change.after) for change in found["packages"].changes] == [("2.4", "2.5")]
    assert (found["hardware"].known, found["code"].changes) == (False, ())


@pytest.mark.parametrize(
    ("other", "after", "said"),
    [
        (MADE, {"loss": 1.0}, "The same in everything that is known. The metric is identical."),
        (MADE, {"loss": 1.001}, "The same in everything that is known. The metric agrees within 1%."),
        (
            replace(MADE, packages={"torch": "2.5"}, code={"bundle": "man-2"}),
            {"loss": 3.0},
            "Different code and packages. 1 of 1 metrics differ by more than 1%.",
        ),
        (MADE, {}, "The same in everything that is known. 1 of 1 metrics are there in one of the two only."),
    ],
)
def test_the_verdict_names_what_differs_and_what_came_of_it(
    other: MadeOf, after: dict[str, float], said: str
) -> None:
    assert sentence(subjects(MADE, other), metrics({"loss": 1.0}, after)) == said


def test_before_the_first_metric_it_says_so() -> None:
    assert sentence(subjects(MADE, MADE), ()).endswith("No metric can be compared yet.")
