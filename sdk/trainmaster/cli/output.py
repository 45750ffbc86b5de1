"""What commands print: tables for people, JSON for programs."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import click

from platform_core.units import format_duration_ms
from trainmaster.answers import Answer

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def dump(answers: Answer | Sequence[Answer]) -> None:
    body: Any = asdict(answers) if isinstance(answers, Answer) else [asdict(one) for one in answers]
    click.echo(json.dumps(body, indent=2, ensure_ascii=False, default=str))


def table(titles: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """Columns as wide as their content; numbers to the right. `empty` is said when there are no rows."""
    if not rows:
        click.echo(empty, err=True)
        return
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *texts, strict=True)]
    numeric = [
        all(isinstance(cell, int | float | None) for cell in column) for column in zip(*rows, strict=True)
    ]
    for line in [list(titles), *texts]:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ]
        click.echo("  ".join(cells).rstrip())


def facts(pairs: Sequence[tuple[str, object]]) -> None:
    """`name   value`, without those that say nothing."""
    told = [(name, _text(value)) for name, value in pairs if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in told), default=0)
    for name, value in told:
        click.echo(f"{name.ljust(width)}  {value}")


def age(at_ms: int | None) -> str:
    """How long ago."""
    if at_ms is None:
        return ""
    return format_duration_ms(max(0, time.time_ns() // 1_000_000 - at_ms) // 1000 * 1000)


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
