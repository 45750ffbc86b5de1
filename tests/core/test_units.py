from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core import units


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8GiB", 8 * 1024**3),
        ("8 g", 8 * 1024**3),
        ("8GB", 8 * 10**9),
        ("1.5MiB", 1_572_864),
        ("12", 12),
        (7, 7),
    ],
)
def test_sizes_are_read_with_and_without_units(text: str | int, count: int):
    assert units.parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GiB", "-1GiB", "8 apples", "1.0001 B", "1e3", "٣GiB", "9" * 50])
def test_what_is_no_size_is_refused(text: str):
    with pytest.raises(ValueError, match="is not a"):
        units.parse_bytes(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (812, "812 B"), (1536, "1.5 KiB"), (8 * 1024**3, "8 GiB"), (500 * 10**9, "466 GiB")],
)
def test_sizes_are_written_with_three_digits(count: int, text: str):
    assert units.format_bytes(count) == text


@given(st.integers(0, 2**60))
def test_a_written_size_reads_back_within_a_percent(count: int):
    text = units.format_bytes(count)
    if text.endswith(" B"):
        assert units.parse_bytes(text) == count
    else:
        number, unit = text.split()
        assert abs(float(number) * units.parse_bytes(f"1{unit}") - count) <= count / 100


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"), (340, "340 ms"), (12_500, "12.5 s"), (59_999, "59.9 s"), (60_000, "1 min"), (90_000, "1 min 30 s"),
        (7_500_000, "2 h 5 min"), (7_200_000, "2 h"), (273_600_000, "3 d 4 h"), (-90_000, "-1 min 30 s"),
    ],
)  # fmt: skip
def test_durations_show_their_two_largest_units(ms: int, text: str):
    assert units.format_duration_ms(ms) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [(0, "$0.00"), (1, "<$0.01"), (5_000, "$0.01"), (12_345_678, "$12.35"),
     (-1_500_000, "-$1.50"), (10**12, "$1,000,000.00")],
)  # fmt: skip
def test_money_is_written_in_cents(amount: int, text: str):
    assert units.format_micro_dollars(amount) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3584.2, "3,584"),
        (999.6, "1000"),
        (12.46, "12.5"),
        (1.08, "1.08"),
        (0.0042, "0.004"),
        (0.0, "0"),
        (-0.5, "-0.5"),
    ],
)
def test_numbers_of_any_size_are_read_without_an_exponent(value: float, text: str):
    assert units.format_number(value) == text
