"""Detects workers that left silently or returned without their pieces.

An absence can be too short to be noticed. Neighbours notice a dead connection at once; a coordinator only hears
nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MOST = 4  # this part of all may be silent; when it is more, it is the listener who does not hear


def silent(heard_ms: Mapping[str, int], now_ms: int, patience_ms: int) -> frozenset[str]:
    """Active workers that have been silent for too long; none when implausibly many are."""
    silent_nodes = frozenset(node for node, at_ms in heard_ms.items() if now_ms - at_ms > patience_ms)
    return silent_nodes if len(silent_nodes) <= max(1, len(heard_ms) // _MOST) else frozenset()


def began_anew(before: Sequence[float], now: Sequence[float]) -> bool:
    """True if a node has lost most of the pieces it held, by lane, so that it has nothing to pass on.

    The few pieces that a killed agent had not yet recorded do not count, nor does a report without numbers.
    """
    return bool(now) and sum(now) * 2 < sum(before)
