"""Which sampled requests are kept as data, and what of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from platform_core.serving import bodies

NOBODY = "none"  # what a caller sends who wants nothing kept


@dataclass(frozen=True, slots=True)
class Consent:
    """For which purposes an endpoint collects; `asked`: only of callers who name each of them."""

    purposes: tuple[str, ...] = ()
    asked: bool = True

    def given(self, said: str | None) -> bool:
        """By the header of a request: purposes separated by commas, or none; None where it has no such header."""
        if not self.purposes:
            return False
        if said is None:
            return not self.asked
        named = {word.strip().lower() for word in said.split(",")}
        return NOBODY not in named and named.issuperset(purpose.lower() for purpose in self.purposes)


def rows_of(request: bytes, answer: bytes, redacted: Collection[str] = ()) -> list[dict[str, Any]]:
    """Each row with what was answered to it, as `input` and `output`; [] where they do not belong together.

    What has one of the `redacted` names, or stands at such a place of a list, is left out with all that is in it.
    """
    inputs = bodies.asked(bodies.document_of(request))
    outputs = bodies.answered(bodies.document_of(answer))
    if len(inputs) != len(outputs):
        return []
    rows = ({"input": asked, "output": given} for asked, given in zip(inputs, outputs, strict=True))
    return [_without(row, redacted) for row in rows]


def _without(value: Any, names: Collection[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(inner, names) for key, inner in value.items() if key not in names}
    if isinstance(value, list):
        return [None if str(place) in names else _without(inner, names) for place, inner in enumerate(value)]
    return value


def as_lines(rows: Iterable[Mapping[str, Any]], **about: Any) -> str:
    """JSON lines: each row with what is known `about` its request; what is None is left out."""
    known = {name: value for name, value in about.items() if value is not None}
    return "".join(json.dumps({**known, **row}, ensure_ascii=False) + "\n" for row in rows)
