"""What stored bytes cost."""

from __future__ import annotations

TIB = 2**40
DAYS_A_YEAR, MONTHS_A_YEAR = 365, 12


def monthly(stored: int, dollars_per_tib: int) -> int:
    """Micro-dollars a month for so many bytes."""
    return stored * dollars_per_tib * 1_000_000 // TIB


def accrued(byte_days: int, dollars_per_tib: int) -> int:
    """Micro-dollars for bytes times the days that they lay there, a month being a twelfth of 365 days."""
    return byte_days * dollars_per_tib * 1_000_000 * MONTHS_A_YEAR // (TIB * DAYS_A_YEAR)
