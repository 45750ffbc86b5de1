"""A small line chart of shares over time, drawn on the server: a page with nothing larger loads no chart library."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WIDTH, HEIGHT = 1000, 100  # of the drawing; the page stretches it
ROWS = 48  # of the table behind it


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    points: str  # of an SVG polyline
    latest: float


@dataclass(frozen=True, slots=True)
class LineChart:
    lines: tuple[Line, ...]
    moments: tuple[int, ...]  # milliseconds since 1970 below the chart: first, middle, last
    rows: tuple[tuple[int, tuple[float, ...]], ...]  # time and one value for each line, the newest first


def of_percentages(times: Sequence[int], series: Mapping[str, Sequence[float]]) -> LineChart | None:
    """Returns None without values."""
    if not times:
        return None
    first, last = times[0], times[-1]
    lines = [
        Line(
            name,
            " ".join(_place(at, value, first, last) for at, value in zip(times, values, strict=True)),
            values[-1],
        )
        for name, values in series.items()
    ]
    every = -(-len(times) // ROWS)
    rows: list[Any] = [
        (times[at], tuple(values[at] for values in series.values())) for at in range(len(times))
    ]
    return LineChart(tuple(lines), (first, (first + last) // 2, last), tuple(rows[::-1][::every]))


def _place(at: int, percent: float, first: int, last: int) -> str:
    x = WIDTH * (at - first) / (last - first) if last > first else WIDTH
    return f"{x:.0f},{HEIGHT * (1 - percent / 100):.1f}"
