"""Metrics as lines for a person."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TextIO

from platform_core.units import format_duration_ms

QUIET_MS = 1_000
NUMBER_WIDTH = 8


def metrics_line(step: int, total: int | None, values: Mapping[str, float], left_ms: int | None) -> str:
    """`step  50/400 · loss 2.3451   · lr 0.001    · 12 s left`, in columns as long as the names stay the same."""
    width = len(str(total)) if total else 6
    head = f"step {step:>{width}}/{total}" if total else f"step {step:>{width}}"
    parts = [head, *(f"{name} {number(value):<{NUMBER_WIDTH}}" for name, value in values.items())]
    if left_ms is not None:
        parts.append(f"{format_duration_ms(left_ms)} left")
    return " · ".join(parts).rstrip()


def number(value: float) -> str:
    if isinstance(value, int) or 100_000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.5g}"


def warn(sentence: str) -> None:
    _write(sys.stderr, f"trainmaster: {sentence}")


def _write(stream: TextIO, line: str) -> None:
    try:
        encoding = getattr(stream, "encoding", None) or "utf-8"
        stream.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")
        stream.flush()
    except (OSError, ValueError):  # nothing reads the output any more; training continues
        return


class Console:
    """Prints at most a line a second, but never hides a metric that is seldom logged, nor the last step."""

    def __init__(self) -> None:
        self._total: int | None = None
        self._printed_ms: int | None = None
        self._shown: frozenset[str] = frozenset()
        self._first: tuple[int, int] | None = None

    def expect(self, total_steps: int | None) -> None:
        self._total = total_steps

    def metrics(self, step: int, values: Mapping[str, float], now_ms: int) -> None:
        if self._first is None:
            self._first = (step, now_ms)
        recent = self._printed_ms is not None and now_ms - self._printed_ms < QUIET_MS
        if recent and values.keys() <= self._shown and step != self._total:
            return
        self._shown = frozenset(values)
        self._printed_ms = now_ms
        self.say(metrics_line(step, self._total, values, self._left_ms(step, now_ms)))

    def say(self, line: str) -> None:
        _write(sys.stdout, line)

    def warn(self, sentence: str) -> None:
        warn(sentence)

    def _left_ms(self, step: int, now_ms: int) -> int | None:
        if self._first is None or not self._total or not self._first[0] < step < self._total:
            return None
        first_step, first_ms = self._first
        left = (now_ms - first_ms) * (self._total - step) // (step - first_step)
        return left // 1000 * 1000 or None
