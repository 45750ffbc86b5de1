"""Who has left without a word. Neighbours notice a dead connection at once; a coordinator just hears nothing."""

from __future__ import annotations

from collections.abc import Mapping

_MOST = 4  # this part of all may be silent; when it is more, it is the listener who does not hear


def silent(heard_ms: Mapping[str, int], now_ms: int, patience_ms: int) -> frozenset[str]:
    """Those at work who were last heard longer ago than that; nobody while it is too many to be believed."""
    gone = frozenset(node for node, at_ms in heard_ms.items() if now_ms - at_ms > patience_ms)
    return gone if len(gone) <= max(1, len(heard_ms) // _MOST) else frozenset()
