from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.settings_table import LEAST_RUNS, Axis, axes, design_matrix, metric_axis


def test_numbers_texts_and_missing_values_become_axes():
    runs = [{"lr": 0.1, "act": "relu", "seed": 1}, {"lr": 0.001, "act": "gelu", "seed": 2}, {"act": "gelu"}]
    assert axes(runs) == (
        Axis("act", (1.0, 0.0, 0.0), ("gelu", "relu")),
        Axis("lr", (0.1, 0.001, None), log=True),
    )


def test_what_is_equal_or_a_free_text_is_no_axis():
    assert axes([{"same": 1, "note": f"text {place}"} for place in range(20)]) == ()


def test_true_and_false_are_two_categories():
    assert axes([{"bias": True}, {"bias": False}])[0].categories == ("False", "True")


def test_a_metric_without_a_finite_value_is_missing():
    assert metric_axis("loss", [1.0, math.nan, None]).values == (1.0, None, None)


def test_few_runs_have_no_importance_but_a_sentence():
    problem = design_matrix(axes([{"lr": 1.0}, {"lr": 2.0}]), [1.0, 2.0]).problem
    assert problem == f"2 runs have a value; an importance needs at least {LEAST_RUNS}. Add runs."


def test_equal_results_have_no_importance():
    columns = axes([{"lr": float(place)} for place in range(9)])
    assert "same result" in design_matrix(columns, [1.0] * 9).problem


def test_runs_without_a_result_are_left_out_and_gaps_are_filled():
    columns = axes([{"lr": 10.0**-place} if place else {} for place in range(12)])
    matrix = design_matrix(columns, [None if place == 3 else float(place) for place in range(12)])
    assert matrix.names == ("lr",)
    assert len(matrix.rows) == len(matrix.results) == 11
    assert matrix.rows[1] == (-1.0,)
    assert matrix.rows[0][0] in {row[0] for row in matrix.rows[1:]}


SETTINGS = st.dictionaries(
    st.sampled_from("abc"), st.floats() | st.integers() | st.text(max_size=3) | st.none()
)


@given(st.lists(st.tuples(SETTINGS, st.floats() | st.none()), max_size=20))
def test_any_runs_give_a_full_matrix_or_a_reason(runs):
    matrix = design_matrix(axes([settings for settings, _ in runs]), [result for _, result in runs])
    assert bool(matrix.rows) != bool(matrix.problem)
    for row in matrix.rows:
        assert len(row) == len(matrix.names)
        assert all(map(math.isfinite, row))
