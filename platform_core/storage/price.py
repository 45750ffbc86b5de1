"""What stored bytes cost."""

from __future__ import annotations

TIB = 2**40


def monthly(stored: int, dollars_per_tib: int) -> int:
    """Micro-dollars a month for so many bytes."""
    return stored * dollars_per_tib * 1_000_000 // TIB
