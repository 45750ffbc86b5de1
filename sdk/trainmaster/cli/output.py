"""What commands print: tables for people, JSON for programs. States have colours on a terminal."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import click

from platform_core.units import format_duration_ms
from trainmaster.answers import Answer

COLOURS = {
    state: colour
    for colour, states in {
        "green": "succeeded finished complete ready active serving",
        "cyan": "scheduled initializing running checkpointing downloading distributing verifying registering init",
        "yellow": "paused out_of_budget pruned pending preempted suspect draining drained evicted degraded",
        "red": "failed lost revoked unavailable",
        "bright_black": "cancelled",
    }.items()
    for state in states.split()
}
_STATES = ("STATE", "STATUS")


def _without_colour(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.color = False


no_color = click.option(
    "--no-color", is_flag=True, expose_value=False, callback=_without_colour,
    help="Print without colours, as in a pipe or with NO_COLOR set.",
)  # fmt: skip


def options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of every command that prints answers."""
    json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
    return json_option(no_color(command))


def dump(answers: Answer | Sequence[Answer]) -> None:
    dump_json(asdict(answers) if isinstance(answers, Answer) else [asdict(answer) for answer in answers])


def dump_json(body: Any) -> None:
    click.echo(json.dumps(body, indent=2, ensure_ascii=False, default=str))


def coloured(state: str) -> str:
    """A text that begins with a state, in the state's colour."""
    return click.style(state, fg=COLOURS.get(state.split(" ")[0])) if state else state


def table(titles: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """Columns as wide as their content, numbers to the right. Without rows it prints `empty` to standard error."""
    if not rows:
        click.echo(empty, err=True)
        return
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(titles, *texts, strict=True)]
    numeric = [
        all(isinstance(cell, int | float | None) for cell in column) for column in zip(*rows, strict=True)
    ]
    for number, line in enumerate([list(titles), *texts]):
        cells = []
        for title, cell, width, right in zip(titles, line, widths, numeric, strict=True):
            padding = " " * (width - len(cell))
            shown = coloured(cell) if number and title in _STATES else cell
            cells.append(padding + shown if right else shown + padding)
        click.echo("  ".join(cells).rstrip())


def facts(pairs: Sequence[tuple[str, object]]) -> None:
    """`name   value`, without empty values."""
    shown = [(name, _text(value)) for name, value in pairs if value not in (None, "", [], {})]
    width = max((len(name) for name, _ in shown), default=0)
    for name, value in shown:
        click.echo(f"{name.ljust(width)}  {coloured(value) if name.upper() in _STATES else value}")


def age(at_ms: int | None) -> str:
    """Time since then, in words."""
    return "" if at_ms is None else _between(at_ms, _now_ms())


def until(at_ms: int | None) -> str:
    """Time until then, in words."""
    return "" if at_ms is None else _between(_now_ms(), at_ms)


def _between(from_ms: int, to_ms: int) -> str:
    return format_duration_ms(max(0, to_ms - from_ms) // 1000 * 1000)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _text(cell: object) -> str:
    if cell is None:
        return ""
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)
