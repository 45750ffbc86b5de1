"""What an app above this one says a service level in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from platform_core.service_levels.budget import Counts


@dataclass(frozen=True, slots=True)
class Period:
    from_ms: int
    to_ms: int
    at_ms: int  # when that is asked
    limit_ms: int = 0
    team: str = ""  # "": the whole cluster


Read = Callable[[Period], Counts]
