"""What JSON columns take, out of what scripts and clients send: JSON has no NaN, and PostgreSQL no NUL."""

from __future__ import annotations

import math
from typing import Any

from platform_core.errors import TrainmasterError

MAX_DEPTH = 32


def storable(value: Any, depth: int = 0) -> Any:
    """The same, with NUL and broken Unicode replaced by a mark, NaN and infinities by their names.

    Raises request_invalid for what is nested deeper than anybody means it: every reader would have to climb down there.
    """
    if depth > MAX_DEPTH:
        raise TrainmasterError("request_invalid", what="JSON", why=f"it is nested more than {MAX_DEPTH} deep")
    if isinstance(value, str):
        return value.replace("\0", "�").encode(errors="replace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {storable(str(key)): storable(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [storable(inner, depth + 1) for inner in value]
    return value
