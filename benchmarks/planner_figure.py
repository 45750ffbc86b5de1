"""Predicted against measured seconds of a step, as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10

_SIZE, _LEFT, _TOP = 300, 46, 30
_STYLE = 'font-family="system-ui, sans-serif" font-size="11"'
_GREY, _FAINT, _BLUE = "#5c6672", "#c4cad2", "#1a5fb4"
_DASHED = ' stroke-dasharray="4 3"'


def scatter(steps: Sequence[tuple[float, float]], name: str) -> str:
    """Both axes logarithmic; the line is equality, the dashed ones are ten per cent beside it."""
    seconds = [value for step in steps for value in step]
    low, high = floor(4 * log10(min(seconds))) / 4, ceil(4 * log10(max(seconds))) / 4
    span = max(high - low, 0.25)

    def along(value: float) -> float:
        return _SIZE * (log10(value) - low) / span

    def line(factor: float, dashed: str) -> str:
        shift = _SIZE * log10(factor) / span
        begin, end = max(0.0, -shift), min(_SIZE, _SIZE - shift)
        return (
            f'<line x1="{_LEFT + begin:.1f}" y1="{_TOP + _SIZE - begin - shift:.1f}" x2="{_LEFT + end:.1f}" '
            f'y2="{_TOP + _SIZE - end - shift:.1f}" stroke="{_GREY}"{dashed}/>'
        )

    circles = "".join(
        f'<circle cx="{_LEFT + along(measured):.1f}" cy="{_TOP + _SIZE - along(predicted):.1f}" r="2"/>'
        for predicted, measured in steps
    )
    dots = f'<g fill="{_BLUE}" fill-opacity="0.5">{circles}</g>'
    marks = "".join(_mark(along(value), value) for value in _ticks(low, low + span))
    frame = f'<rect x="{_LEFT}" y="{_TOP}" width="{_SIZE}" height="{_SIZE}" fill="none" stroke="{_FAINT}"/>'
    title = f'<text x="{_LEFT}" y="18">{name}: predicted over measured seconds of a step</text>'
    size = f'width="{_SIZE + _LEFT + 60}" height="{_SIZE + _TOP + 30}"'
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    body = title + frame + marks + line(1.0, "") + line(1.1, _DASHED) + line(1 / 1.1, _DASHED) + dots
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_STYLE}>{background}{body}</svg>\n'


_ROW, _NAMES, _SCALE = 18, 300, 12  # pixels: of a line, of its name, of one per cent


def bars(errors: Sequence[tuple[str, float]]) -> str:
    """A bar for each error in per cent, from zero; the band between the dashed lines is five per cent."""
    most = max(15.0, *(abs(error) for _, error in errors))
    zero, height = _NAMES + _SCALE * most, _ROW * len(errors)
    lines = "".join(
        f'<line x1="{zero + _SCALE * at:.1f}" y1="24" x2="{zero + _SCALE * at:.1f}" y2="{24 + height}" '
        f'stroke="{_GREY if at == 0 else _FAINT}"{"" if at == 0 else _DASHED}/>'
        for at in (-5, 0, 5)
    )
    drawn = "".join(_bar(24 + _ROW * place, zero, *each) for place, each in enumerate(errors))
    title = (
        '<text x="4" y="15">Predicted less published time of a step, in per cent of the published one</text>'
    )
    size = f'width="{zero + _SCALE * most + 50:.0f}" height="{height + 34}"'
    background = '<rect width="100%" height="100%" fill="#ffffff"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {_STYLE}>{background}{title}{lines}{drawn}</svg>\n'
    )


def _bar(y: int, zero: float, name: str, error: float) -> str:
    left, width = zero + _SCALE * min(0.0, error), _SCALE * abs(error)
    end = f'<text x="{left + width + 4:.1f}" y="{y + 13}" fill="{_GREY}">{round(error, 1) + 0.0:+.1f}</text>'
    return (
        f'<text x="4" y="{y + 13}">{name}</text>'
        f'<rect x="{left:.1f}" y="{y + 3}" width="{width:.1f}" height="12" fill="{_BLUE}" fill-opacity="0.7"/>{end}'
    )


def _ticks(low: float, high: float) -> list[float]:
    decades = range(floor(low), ceil(high) + 1)
    values = [digit * 10.0**power for power in decades for digit in (1, 2, 5)]
    return [value for value in values if low <= log10(value) <= high]


def _mark(place: float, seconds: float) -> str:
    x, y, bottom = _LEFT + place, _TOP + _SIZE - place, _TOP + _SIZE
    return (
        f'<text x="{x:.1f}" y="{bottom + 15}" text-anchor="middle" fill="{_GREY}">{seconds:g}</text>'
        f'<text x="{_LEFT - 5}" y="{y + 4:.1f}" text-anchor="end" fill="{_GREY}">{seconds:g}</text>'
    )
