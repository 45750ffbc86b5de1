from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.comparison import (
    MISSING,
    differences,
    direction,
    final_metrics,
    flatten,
    headline,
    same,
)

NAN = float("nan")
VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([0.0, 1.0, 0.5, NAN])
    | st.text(max_size=2)
)
CONFIGS = st.recursive(
    st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("abc"), VALUES | inner, max_size=3),
    max_leaves=6,
)


def test_only_what_differs_is_shown_by_name():
    rows = differences([{"lr": 0.1, "batch": 32, "seed": 1}, {"lr": 0.2, "batch": 32}])
    assert [(row.name, row.values) for row in rows] == [("lr", (0.1, 0.2)), ("seed", (1, MISSING))]


def test_nested_settings_are_compared_leaf_by_leaf():
    rows = differences([{"optimizer": {"lr": 1, "beta": 0.9}}, {"optimizer": {"lr": 2, "beta": 0.9}}])
    assert [row.name for row in rows] == ["optimizer.lr"]


def test_a_third_run_that_differs_is_seen():
    assert [row.values for row in differences([{"a": 1}, {"a": 1}, {"a": 2}])] == [(1, 1, 2)]


def test_one_is_one_point_zero_but_not_true_and_nan_is_nan():
    assert same(1, 1.0)
    assert not same(1, True)
    assert same(NAN, NAN)
    assert not same([1], [True])
    assert not same(None, MISSING)


@given(CONFIGS, st.integers(0, 4))
def test_copies_of_a_run_do_not_differ(config: dict[str, object], copies: int):
    assert differences([config] * copies) == ()


@given(st.lists(CONFIGS, min_size=2, max_size=4))
def test_each_row_differs_and_each_difference_has_a_row(configs: list[dict[str, object]]):
    rows = {row.name: row.values for row in differences(configs)}
    flat = [flatten(config) for config in configs]
    assert list(rows) == sorted(rows)
    for name in {name for config in flat for name in config}:
        values = tuple(config.get(name, MISSING) for config in flat)
        assert (name in rows) == any(not same(values[0], value) for value in values)


def test_the_best_run_of_a_loss_has_the_least_and_of_an_accuracy_the_most():
    rows = final_metrics(
        [{"eval/loss": 2.0, "accuracy": 0.5}, {"eval/loss": 1.5, "accuracy": 0.4}, {"accuracy": NAN}]
    )
    accuracy, loss = rows
    assert (loss.name, loss.values, loss.best) == ("eval/loss", (2.0, 1.5, None), 1)
    assert (accuracy.name, accuracy.best) == ("accuracy", 0)


def test_equal_runs_have_no_best():
    assert [row.best for row in final_metrics([{"loss": 1.0}, {"loss": 1.0}])] == [None]
    assert [row.best for row in final_metrics([{"loss": 1.0}, {}])] == [None]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("val_bits_per_byte", -1),
        ("train.loss", -1),
        ("tokens_per_second", 1),
        ("eval/top1-acc", 1),
        ("lr", 0),
        ("glossary_size", 0),
    ],
)
def test_a_metrics_direction_is_read_from_its_name(name: str, told: int):
    assert direction(name) == told


def test_a_metric_without_a_direction_has_no_best():
    assert [row.best for row in final_metrics([{"lr": 1.0}, {"lr": 2.0}])] == [None]


def test_runs_are_judged_by_what_was_held_out():
    assert headline(["lr", "loss", "heldout_bits_per_byte"]) == "heldout_bits_per_byte"
    assert headline(["interval", "step_seconds", "loss"]) == "loss"
    assert headline(["lr"]) == ""
