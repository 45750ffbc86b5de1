"""What JSON columns take, out of what scripts and clients send: JSON has no NaN, and PostgreSQL no NUL."""

from __future__ import annotations

import math
from typing import Any


def storable(value: Any) -> Any:
    """The same, with NUL and broken Unicode replaced by a mark, NaN and infinities by their names."""
    if isinstance(value, str):
        return value.replace("\0", "�").encode(errors="replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [storable(inner) for inner in value]
    return value
