"""The loss of each way of aggregation against samples and against seconds, as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Losses = Sequence[Sequence[float]]  # samples, seconds, loss

_WIDTH, _HEIGHT, _LEFT, _TOP, _APART = 360, 240, 46, 30, 60
_STYLE = 'font-family="system-ui, sans-serif" font-size="11"'
_GREY, _FAINT = "#5c6672", "#c4cad2"
_COLOURS = ("#1a5fb4", "#c64600", "#26a269", "#813d9c", "#a51d2d", "#0e8a8a", "#8f6a00", "#3d3846", "#e0629a")
_TICKS = 5


def losses(ways: Mapping[str, Losses]) -> str:
    """Two panels with the same loss upwards; colours and dashes tell the ways apart, the legend stands below."""
    rows = [row for each in ways.values() for row in each]
    low, high = min(row[2] for row in rows), max(row[2] for row in rows)
    panels = "".join(
        _panel(ways, column, name, _LEFT + column * (_WIDTH + _APART), low, high)
        for column, name in enumerate(("samples", "seconds"))
    )
    width, height = _LEFT + 2 * _WIDTH + _APART + 20, _TOP + _HEIGHT + 40 + 16 * ((len(ways) + 2) // 3)
    legend = "".join(_entry(place, name) for place, name in enumerate(ways))
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    size = f'width="{width}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_STYLE}>{background}{panels}{legend}</svg>\n'


def _panel(ways: Mapping[str, Losses], column: int, name: str, left: int, low: float, high: float) -> str:
    most = max(row[column] for each in ways.values() for row in each)

    def up(loss: float) -> float:
        return _TOP + _HEIGHT * (high - loss) / ((high - low) or 1.0)

    lines = "".join(
        f'<polyline fill="none" stroke="{_COLOURS[place % len(_COLOURS)]}"{_dash(place)} stroke-width="1.5" points="'
        + " ".join(f"{left + _WIDTH * row[column] / (most or 1.0):.1f},{up(row[2]):.1f}" for row in each)
        + '"/>'
        for place, each in enumerate(ways.values())
    )
    marks = "".join(
        f'<text x="{left + _WIDTH * tick / _TICKS:.0f}" y="{_TOP + _HEIGHT + 15}" text-anchor="middle" '
        f'fill="{_GREY}">{most * tick / _TICKS:.3g}</text><text x="{left - 5}" y="{up(loss) + 4:.0f}" '
        f'text-anchor="end" fill="{_GREY}">{loss:.2f}</text>'
        for tick in range(_TICKS + 1)
        for loss in [low + (high - low) * tick / _TICKS]
    )
    frame = f'<rect x="{left}" y="{_TOP}" width="{_WIDTH}" height="{_HEIGHT}" fill="none" stroke="{_FAINT}"/>'
    return f'<text x="{left}" y="18">Loss against {name}</text>{frame}{marks}{lines}'


def _entry(place: int, name: str) -> str:
    x, y = _LEFT + place % 3 * 270, _TOP + _HEIGHT + 40 + 16 * (place // 3)
    line = (
        f'<line x1="{x}" x2="{x + 22}" y1="{y - 4}" y2="{y - 4}" stroke="{_COLOURS[place % len(_COLOURS)]}"'
    )
    return f'{line}{_dash(place)} stroke-width="2"/><text x="{x + 28}" y="{y}">{name}</text>'


def _dash(place: int) -> str:
    return ("", ' stroke-dasharray="6 3"', ' stroke-dasharray="2 2"')[place % 3]
