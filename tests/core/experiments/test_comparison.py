from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.comparison import (
    MISSING,
    Reported,
    best_of,
    compared_metrics,
    differences,
    direction,
    flatten,
    headline,
    rule_of,
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


def constant(value: float) -> Reported:
    return Reported(value, value, value)


def test_the_best_run_of_a_loss_has_the_least_and_of_an_accuracy_the_most():
    rows = compared_metrics(
        [
            {"eval/loss": constant(2.0), "accuracy": constant(0.5)},
            {"eval/loss": constant(1.5), "accuracy": constant(0.4)},
            {"accuracy": constant(NAN)},
        ]
    )
    accuracy, loss = rows
    assert (loss.name, loss.values, loss.best) == ("eval/loss", (2.0, 1.5, None), 1)
    assert (accuracy.name, accuracy.best) == ("accuracy", 0)


def test_a_run_is_judged_by_the_best_that_it_reached_and_not_by_its_last_noise():
    noisy = {"loss": Reported(last=-0.3, lowest=-0.3, highest=9.0), "lr": Reported(0.1, 0.0, 0.2)}
    better = {"loss": Reported(last=0.4, lowest=-0.5, highest=7.0), "lr": Reported(0.1, 0.0, 0.3)}
    loss, lr = compared_metrics([noisy, better])
    assert (loss.rule, loss.values, loss.best) == ("lowest", (-0.3, -0.5), 1)
    assert (lr.rule, lr.values, lr.best) == ("last", (0.1, 0.1), None)
    assert rule_of("val/accuracy") == "highest"


def test_equal_runs_have_no_best():
    assert [row.best for row in compared_metrics([{"loss": constant(1.0)}, {"loss": constant(1.0)}])] == [
        None
    ]
    assert [row.best for row in compared_metrics([{"loss": constant(1.0)}, {}])] == [None]


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
    assert [row.best for row in compared_metrics([{"lr": constant(1.0)}, {"lr": constant(2.0)}])] == [None]


def test_runs_are_judged_by_what_was_held_out():
    assert headline(["lr", "loss", "heldout_bits_per_byte"]) == "heldout_bits_per_byte"
    assert headline(["interval", "step_seconds", "loss"]) == "loss"
    assert headline(["lr"]) == ""


def test_what_the_platform_samples_is_no_result_of_a_run() -> None:
    assert direction("system/host/disk_read_bytes_per_second") == 0
    assert best_of("system/host/disk_read_bytes_per_second", [1.0, 2.0]) is None
    assert headline(["system/host/disk_read_bytes_per_second", "accuracy"]) == "accuracy"
