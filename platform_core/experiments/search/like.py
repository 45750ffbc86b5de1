"""LIKE and ILIKE of filters, in time that grows with the text times the pattern and no faster."""

from __future__ import annotations

import re


def like(value: str, pattern: str, *, ignore_case: bool) -> bool:
    """% stands for any text, _ for any one character; nothing escapes them."""
    if ignore_case:
        value, pattern = value.lower(), pattern.lower()
    first, *others = pattern.split("%")
    if not others:
        return _piece(first).fullmatch(value) is not None
    *middle, last = others
    if (match := _piece(first).match(value)) is None:
        return False
    position = match.end()
    for piece in middle:  # the leftmost place leaves most for the others
        if (match := _piece(piece).search(value, position)) is None:
            return False
        position = match.end()
    return (
        len(value) - len(last) >= position
        and _piece(last).fullmatch(value, len(value) - len(last)) is not None
    )


def _piece(text: str) -> re.Pattern[str]:
    return re.compile(
        "".join("." if character == "_" else re.escape(character) for character in text), re.DOTALL
    )
