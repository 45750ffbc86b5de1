"""Numbers and their words: bytes, milliseconds, micro-dollars. Inside, units are always integers."""

from __future__ import annotations

import re
from decimal import Decimal

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

MICRO_DOLLARS = 1_000_000  # in one dollar

CPU = "cpu"  # the type of nodes without GPUs: their capacity is counted in slots

_BYTE_UNITS = {
    "": 1,
    "b": 1,
    "k": KIB,
    "kib": KIB,
    "kb": 1_000,
    "m": MIB,
    "mib": MIB,
    "mb": 1_000**2,
    "g": GIB,
    "gib": GIB,
    "gb": 1_000**3,
    "t": TIB,
    "tib": TIB,
    "tb": 1_000**4,
}
_TWO_UNITS = (
    (DAY_MS, "d", HOUR_MS, "h"),
    (HOUR_MS, "h", MINUTE_MS, "min"),
    (MINUTE_MS, "min", SECOND_MS, "s"),
)
_SIZE = re.compile(r"\s*([0-9]{1,19}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)\s*", re.ASCII)


def parse_bytes(text: str | int) -> int:
    """8589934592 for "8GiB", "8 g" or "8589934592"; "8GB" is 8 * 1000**3. Otherwise a ValueError."""
    if isinstance(text, int):
        return text
    match = _SIZE.fullmatch(text)
    unit = _BYTE_UNITS.get(match[2].lower()) if match else None
    if match is None or unit is None:
        raise ValueError(f"{text!r} is not a size; write a number and a unit, such as 8GiB or 512MiB")
    exact = Decimal(match[1]) * unit
    if exact != int(exact):
        raise ValueError(f"{text!r} is not a whole number of bytes")
    return int(exact)


def format_bytes(count: int) -> str:
    """Three significant digits at most: "8 GiB", "1.5 MiB", "812 B"."""
    for size, unit in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if abs(count) >= size:
            return f"{_short(count / size)} {unit}"
    return f"{count} B"


def format_duration_ms(ms: int) -> str:
    """The two largest units: "3 d 4 h", "2 h 5 min", "1 min 30 s", "12.5 s", "340 ms"."""
    if ms < 0:
        return f"-{format_duration_ms(-ms)}"
    if ms < SECOND_MS:
        return f"{ms} ms"
    if ms < MINUTE_MS:
        # cut, never rounded: 59.99 s must not read "60 s"
        return f"{ms // 100 / 10:.1f}".removesuffix(".0") + " s"
    large, large_unit, small, small_unit = next(step for step in _TWO_UNITS if ms >= step[0])
    rest = ms % large // small
    return f"{ms // large} {large_unit} {rest} {small_unit}" if rest else f"{ms // large} {large_unit}"


def format_micro_dollars(amount: int) -> str:
    """Cents, rounded half away from zero; an amount below a cent says so instead of reading as nothing."""
    sign = "-" if amount < 0 else ""
    size = abs(amount)
    if 0 < size < MICRO_DOLLARS // 200:
        return f"{sign}<$0.01"
    cents = (size + 5_000) // 10_000
    return f"{sign}${cents // 100:,}.{cents % 100:02d}"


def format_number(value: float) -> str:
    """Three digits that say something, all of those before the point: "3,584", "12.5", "1.08", "0.004"."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) >= 1:
        return _short(value)
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _short(value: float) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def plural(count: int, noun: str) -> str:
    """'1 slot', '1,024 slots'."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def slot_noun(gpu_type: str) -> str:
    """The unit in which the capacity of this type is counted, plural."""
    return "slots" if gpu_type == CPU else "GPUs"
