from __future__ import annotations

import math

import pytest

from platform_core.experiments.choices import better, chosen_value, ranked, rule
from platform_core.experiments.comparison import Reported

REPORTED = Reported(last=2.0, lowest=1.0, highest=3.0)


@pytest.mark.parametrize(
    ("key", "choice", "value", "words"),
    [
        ("val/loss", "best", 1.0, "lowest"), ("val/f1", "best", 3.0, "highest"), ("lr", "best", 2.0, "last"),
        ("val/loss", "last", 2.0, "last"), ("val/loss", "max", 3.0, "highest"), ("lr", "min", 1.0, "lowest"),
        ("val/loss", "smoothed", 1.5, "smoothed"),
    ],
)  # fmt: skip
def test_the_value_that_counts_is_the_one_chosen(key: str, choice: str, value: float, words: str):
    assert (chosen_value(key, choice, REPORTED, 1.5), rule(key, choice)) == (value, words)


def test_a_value_that_is_not_finite_does_not_count():
    assert chosen_value("loss", "last", Reported(math.nan, 1.0, 2.0)) is None
    assert chosen_value("loss", "smoothed", REPORTED) is None


def test_the_reader_decides_before_the_name_and_the_name_before_the_choice():
    assert better("val/loss", "max", "higher") == 1
    assert better("val/loss", "max") == -1
    assert (better("lr", "min"), better("lr", "max"), better("lr", "last")) == (-1, 1, 0)


def test_runs_without_a_value_stand_last():
    assert ranked([3.0, None, 1.0], -1) == [2, 0, 1]
    assert ranked([3.0, None, 1.0], 1) == [0, 2, 1]
    assert ranked([3.0, None, 5.0], 0) == [2, 0, 1]
