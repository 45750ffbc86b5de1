"""The time of a round over nodes and over pending jobs, drawn beside n log n."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log, log2

Line = Mapping[str, object]  # as scheduler_round prints them
_WIDE, _HIGH, _LEFT, _TOP = 270, 190, 46, 40
_LEAST_MS, _MOST_MS = 10.0, 1_000.0
_COLOURS = {"busy": "#1a5fb4", "empty": "#b4521a"}
_GREY, _FAINT = "#5c6672", "#c4cad2"
_STYLE = 'font-family="system-ui, sans-serif" font-size="11"'
Points = Sequence[tuple[int, float]]


def svg(lines: Sequence[Line], base_nodes: int = 1_250, base_jobs: int = 5_000) -> str:
    """Both axes double from mark to mark; the dashed line is what n log n makes of the smallest of the busy cluster."""
    panels = [
        _panel(0, f"over nodes ({base_jobs:,} jobs wait)", _series(lines, "nodes", "pending", base_jobs)),
        _panel(
            1, f"over waiting jobs ({base_nodes:,} nodes)", _series(lines, "pending", "nodes", base_nodes)
        ),
    ]
    size = f'width="{2 * (_WIDE + _LEFT) + 20}" height="{_HIGH + _TOP + 36}"'
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_STYLE}>{background}{"".join(panels)}</svg>\n'


def _series(lines: Sequence[Line], over: str, fixed: str, at: int) -> dict[str, list[tuple[int, float]]]:
    chosen = [line for line in lines if line[fixed] == at]
    return {
        cluster: sorted(
            (int(str(line[over])), float(str(line["cpu_ms"])))
            for line in chosen
            if line["cluster"] == cluster
        )
        for cluster in _COLOURS
    }


def _panel(number: int, title: str, series: Mapping[str, Points]) -> str:
    left = _LEFT + number * (_WIDE + _LEFT)
    sizes = sorted({size for points in series.values() for size, _ in points})
    if not sizes:
        return ""
    across = max(log(sizes[-1] / sizes[0]), 1e-9)

    def x(size: int) -> float:
        return left + (_WIDE - 40) * log(size / sizes[0]) / across

    parts = [_text(left, 16, f"CPU ms {title}", "start", weight="600")]
    for mark in (10, 30, 100, 250, 1_000):
        parts.append(f'<path d="M{left} {_y(mark):.0f}h{_WIDE - 40}" stroke="{_FAINT}" stroke-width=".6"/>')
        parts.append(_text(left - 6, _y(mark) + 4, f"{mark:,}", "end"))
    parts += [_text(x(size), _TOP + _HIGH + 16, f"{size:,}", "middle") for size in sizes]
    first = (series["busy"] or series["empty"])[0]
    bound = [(size, first[1] * size * log2(size) / (first[0] * log2(first[0]))) for size in sizes]
    drawn: dict[str, tuple[Points, str, str]] = {"n log n": (bound, _GREY, "4 3")}
    drawn |= {name: (points, _COLOURS[name], "") for name, points in series.items() if points}
    ends = []
    for name, (points, colour, dash) in drawn.items():
        parts.append(_line(points, x, colour, dash))
        last, ms = [point for point in points if point[1] <= _MOST_MS][-1]
        ends.append((float(_y(ms) + 4), float(x(last) + 5), name, colour))
    lowest = 0.0
    for level, right, name, colour in sorted(ends):
        lowest = max(level, lowest + 13)  # names do not stand on each other
        parts.append(_text(right, lowest, name, "start", colour))
    return "".join(parts)


def _y(ms: float) -> float:
    within = min(max(ms, _LEAST_MS), _MOST_MS)
    return _TOP + _HIGH * (1 - log(within / _LEAST_MS) / log(_MOST_MS / _LEAST_MS))


def _line(points: Points, x: Callable[[int], float], colour: str, dash: str) -> str:
    seen = [(size, ms) for size, ms in points if ms <= _MOST_MS]
    where = " ".join(f"{x(size):.1f},{_y(ms):.1f}" for size, ms in seen)
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return f'<polyline points="{where}" fill="none" stroke="{colour}" stroke-width="1.6"{dashed}/>'


def _text(x: float, y: float, told: str, anchor: str, colour: str = _GREY, weight: str = "400") -> str:
    place = f'x="{x:.0f}" y="{y:.0f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}" font-weight="{weight}">{told}</text>'
