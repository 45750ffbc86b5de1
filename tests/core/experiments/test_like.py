"""LIKE in filters, also with patterns that are made to take for ever."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.experiments.search.like import like


@given(st.text("ab%.", max_size=8), st.text("ab%_", max_size=6))
def test_it_matches_what_the_regular_expression_matches(value: str, pattern: str) -> None:
    expression = "".join({"%": ".*", "_": "."}.get(letter) or re.escape(letter) for letter in pattern)
    assert like(value, pattern, ignore_case=False) == bool(re.fullmatch(expression, value, re.DOTALL))


@pytest.mark.parametrize("pattern", ["%a" * 60 + "b", "%_a" * 60 + "%b", "%" * 120 + "b"])
def test_many_wildcards_take_no_time(pattern: str) -> None:
    """A regular expression of this pattern takes longer than the universe has."""
    assert not like("a" * 5_000, pattern, ignore_case=True)


@pytest.mark.parametrize(
    ("value", "pattern"), [("Adam\n", "a%_"), ("ADAMW", "%dam%"), ("x", "%"), ("", "%"), ("aXb", "a_b")]
)
def test_case_and_ends_of_lines(value: str, pattern: str) -> None:
    assert like(value, pattern, ignore_case=True)
