"""Who has left without a word, and who has come back with nothing: it may have been away so briefly that nobody missed
it. Neighbours notice a dead connection at once; a coordinator just hears nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

_MOST = 4  # this part of all may be silent; when it is more, it is the listener who does not hear


def silent(heard_ms: Mapping[str, int], now_ms: int, patience_ms: int) -> frozenset[str]:
    """Those at work who were last heard longer ago than that; nobody while it is too many to be believed."""
    gone = frozenset(node for node, at_ms in heard_ms.items() if now_ms - at_ms > patience_ms)
    return gone if len(gone) <= max(1, len(heard_ms) // _MOST) else frozenset()


def began_anew(before: Sequence[float], now: Sequence[float]) -> bool:
    """Whether a node has lost most of what it held, by lane: for now it has nothing to pass on. The few pieces that a
    killed agent had not yet noted are no such loss, nor is a word without numbers, from one that has yet to look."""
    return bool(now) and sum(now) * 2 < sum(before)
