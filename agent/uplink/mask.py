"""Secret values never leave the node: each becomes •••NAME••• in what goes up. Pure."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

SHORTEST_MASKED = 3  # masking every "1" would make a log unreadable and hide nothing


class Mask:
    """Finds the values, each line of a value with several, and their forms in JSON, repr and URLs."""

    def __init__(self, secrets: tuple[tuple[str, str], ...]) -> None:
        self._names: dict[bytes, str] = {}
        for name, value in secrets:
            for form in _forms(value):
                self._names.setdefault(form.encode(), name)
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first))) if longest_first else None
        self.longest = len(longest_first[0]) if longest_first else 0

    def text(self, data: bytes) -> bytes:
        if self._pattern is None:
            return data
        return self._pattern.sub(lambda match: f"•••{self._names[match[0]]}•••".encode(), data)

    def sentence(self, text: str) -> str:
        return self.text(text.encode(errors="replace")).decode(errors="replace")

    def value(self, value: Any) -> Any:
        """Of a JSON value only the texts are masked: a number that looks like a secret stays a number."""
        if isinstance(value, str):
            return self.sentence(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return {self.sentence(key): self.value(item) for key, item in value.items()}
        return value

    def safe_cut(self, data: bytes) -> int:
        """The largest cut that neither splits a value nor a character, whatever follows the data."""
        cut = len(data) - max(self.longest - 1, 0)
        if cut <= 0:
            return 0
        if self._pattern is not None:
            for match in self._pattern.finditer(data):
                if match.start() < cut < match.end():
                    cut = match.start()
        return _whole_characters(data, cut)


def _whole_characters(data: bytes, cut: int) -> int:
    """The cut, or one up to three bytes earlier if it would split a UTF-8 character."""
    for back in range(1, min(4, cut) + 1):
        byte = data[cut - back]
        if byte >= 0xC0:  # a first byte, which tells how many there should be
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return cut if back >= length else cut - back
        if byte < 0x80:
            return cut
    return cut


def _forms(value: str) -> set[str]:
    pieces = {value, value.strip(), *(line.strip() for line in value.splitlines())}
    forms = set(pieces)
    for piece in pieces:
        forms |= {json.dumps(piece)[1:-1], repr(piece)[1:-1], quote(piece, safe=""), quote(piece)}
        forms.add(json.dumps(piece, ensure_ascii=False)[1:-1])
    return {form for form in forms if len(form) >= SHORTEST_MASKED}
