"""What measures are read as."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Reading:
    """A measure's value for one subject; None where it has none now."""

    value: float | None
    subject: str = ""
    name: str = ""
    team: str = ""
    detail: str = ""


Read = Callable[[int], Iterable[Reading]]
