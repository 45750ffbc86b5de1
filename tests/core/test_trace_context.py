"""The header traceparent of W3C Trace Context."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.trace_context import trace_id

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "header",
    [f"00-{TRACE}-{PARENT}-01", f" 00-{TRACE}-{PARENT}-00 ", f"01-{TRACE}-{PARENT}-01-what-comes-later"],
)
def test_a_valid_header_names_its_trace(header: str) -> None:
    assert trace_id(header) == TRACE


@pytest.mark.parametrize(
    "header",
    [
        "",
        TRACE,
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01\nlevel",
        f"01-{TRACE}-{PARENT}-01-{'x' * 300}",
    ],
)
def test_another_header_names_none(header: str) -> None:
    assert trace_id(header) is None


@given(st.text())
def test_whatever_callers_send_is_a_trace_or_none(header: str) -> None:
    found = trace_id(header)
    assert found is None or len(found) == 32
