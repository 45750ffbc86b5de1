"""Trace ids as W3C Trace Context has them: 32 hexadecimal digits inside the header `traceparent`."""

from __future__ import annotations

import hashlib
import re

# version 00 has these four fields; later ones may add some
_HEADER = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_NO_TRACE, _NO_PARENT = "0" * 32, "0" * 16
MOST_CHARACTERS = 256


def trace_id(traceparent: str) -> str | None:
    """The trace that a caller says its request belongs to; None for a header that is not valid."""
    if len(traceparent) > MOST_CHARACTERS or (found := _HEADER.fullmatch(traceparent.strip())) is None:
        return None
    version, trace, parent, _, more = found.groups()
    if version == "ff" or (version == "00" and more) or trace == _NO_TRACE or parent == _NO_PARENT:
        return None
    return trace


def span_id(*names: str) -> str:
    """The same 16 hexadecimal digits for the same names: a process knows the spans of another without asking."""
    return hashlib.sha256("\0".join(names).encode()).hexdigest()[:16]


def parent_id(traceparent: str) -> str:
    """The span that a valid header names; "" for one that is not valid."""
    return traceparent.strip().split("-")[2] if trace_id(traceparent) else ""


def header(trace: str, span: str) -> str:
    return f"00-{trace}-{span}-01"
