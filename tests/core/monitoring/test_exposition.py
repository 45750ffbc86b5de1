"""What a scraper reads is what was meant."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from platform_core.monitoring.exposition import Family, Kind, Sample, histogram, text

LINE = re.compile(r'(\w+)(?:\{((?:\w+="(?:[^"\\\n]|\\.)*",?)*)\})? (\S+)')


def test_a_family_has_its_help_its_type_and_its_samples() -> None:
    family = Family(
        "trainmaster_things",
        "Things\nof all kinds.",
        Kind.GAUGE,
        (Sample(2, {"team": "vision"}), Sample(0.5)),
    )
    assert text([family]).splitlines() == [
        r"# HELP trainmaster_things Things\nof all kinds.",
        "# TYPE trainmaster_things gauge",
        'trainmaster_things{team="vision"} 2',
        "trainmaster_things 0.5",
    ]


def test_a_histogram_counts_what_is_at_or_below_each_bound() -> None:
    told = histogram((1.0, 2.0), [0.5, 2.0, 7.0], {"team": "vision"})
    assert [(one.suffix, one.labels.get("le"), one.value) for one in told] == [
        ("_bucket", "1", 1), ("_bucket", "2", 2), ("_bucket", "+Inf", 3), ("_sum", None, 9.5), ("_count", None, 3),
    ]  # fmt: skip


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_whatever_stands_in_a_label_comes_back(label: str, value: float) -> None:
    told = text([Family("x", "X", Kind.GAUGE, (Sample(value, {"label": label}),))])
    lines = told.split("\n")
    assert len(lines) == 4, "a line break in a label breaks no line"
    found = LINE.fullmatch(lines[2])
    assert found
    escaped = found[2].removeprefix('label="').removesuffix('"')
    back = re.sub(r"\\(.)", lambda match: "\n" if match[1] == "n" else match[1], escaped, flags=re.S)
    assert back == label
    assert float(found[3]) == value


@given(st.lists(st.floats(0, 100)), st.lists(st.floats(0, 100), unique=True).map(sorted))
def test_buckets_never_fall_and_end_with_all(values: list[float], bounds: list[float]) -> None:
    told = histogram(bounds, values, {})
    counts = [one.value for one in told if one.suffix == "_bucket"]
    assert counts == sorted(counts)
    assert counts[-1] == len(values)
