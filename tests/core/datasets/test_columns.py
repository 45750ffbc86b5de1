"""The first rows of a table show its columns with types, missing values and ranges."""

import sys

from hypothesis import given
from hypothesis import strategies as st

from platform_core.datasets.columns import of_csv, of_json_lines, shown, table


def test_a_csv_file_has_typed_columns_with_missing_values_counted() -> None:
    table = of_csv("id,label,score\n1,cat,0.5\n2,,2\n3,cat,\n", ",", complete=True)
    number, label, score = table.columns
    assert (number.types, number.nulls, number.lowest, number.highest) == (("integer",), 0, "1", "3")
    assert (label.types, label.nulls, label.top) == (("text",), 1, (("cat", 2),))
    assert (score.types, score.nulls) == (("number", "integer"), 1)
    assert shown(table.rows[1].values()) == ("2", "", "2")


def test_the_last_line_of_a_cut_text_is_left_out() -> None:
    assert len(of_csv("a\n1\n2", ",", complete=False).rows) == 1
    assert len(of_json_lines('{"a": 1}\n{"a": 2}\n{"a', complete=False).rows) == 2


def test_json_lines_may_lack_fields_and_have_broken_lines() -> None:
    table = of_json_lines('{"a": 1, "b": [1]}\nnot json\n[1]\n{"a": null}\n{"c": true}\n', complete=True)
    assert [(c.name, c.types, c.nulls) for c in table.columns] == [
        ("a", ("integer",), 2), ("b", ("list",), 2), ("c", ("boolean",), 2),
    ]  # fmt: skip


def test_numbers_have_a_histogram_in_equal_steps_from_the_lowest_to_the_highest() -> None:
    values = [0, *[19.5] * 4, 20, None, float("nan"), float("inf"), 10**400]
    [column] = table([{"value": value} for value in values]).columns
    assert column.histogram == (1, *[0] * 18, 5)
    assert column.heights[0] == 20.0
    assert column.heights[-1] == 100.0


def test_words_and_a_single_number_have_no_histogram() -> None:
    assert [column.histogram for column in table([{"a": "x", "b": 7}, {"a": "y", "b": 7}]).columns] == [
        (),
        (),
    ]


@given(st.lists(st.one_of(st.integers(), st.floats(), st.none())))
def test_every_finite_number_is_in_one_step_of_the_histogram(values: list[float | None]) -> None:
    [column] = table([{"value": value} for value in values] or [{"value": None}]).columns
    finite = [value for value in values if value is not None and abs(value) <= sys.float_info.max]
    assert sum(column.histogram) in (0, len(finite))


@given(st.text(max_size=200), st.booleans())
def test_any_text_is_read_without_an_error(text: str, complete: bool) -> None:
    of_csv(text, ",", complete)
    of_json_lines(text, complete)
