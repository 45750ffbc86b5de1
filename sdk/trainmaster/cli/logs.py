"""`trainmaster logs`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import click

from trainmaster.answers import LogLine
from trainmaster.cli import output, references
from trainmaster.cli.session import connect
from trainmaster.client import Client, Unreachable

LAUNCHERS = 1_000_000  # the launcher of node n writes as this rank + n
PAUSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Selection:
    """Which lines of a job to print, and how."""

    rank: int | None = None
    search: str = ""
    plain: bool = False


ALL = Selection()


@click.command(
    help=f"""Print the log of a job, all ranks together.

    A line begins with the local time at which the node read it and [RANK], from the second attempt on [ATTEMPT.RANK].

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@click.option(
    "-f", "--follow", "following", is_flag=True, help="Stay and print new lines until the job ends."
)
@click.option("--rank", type=click.IntRange(0), help="Only lines of this rank, without [RANK].")
@click.option("--search", default="", help="Only lines with this text.")
@click.option("--plain", is_flag=True, help="Print the lines as they were written, without time and rank.")
@output.no_color
def logs(job: str, following: bool, rank: int | None, search: str, plain: bool) -> None:
    selection = Selection(rank, search, plain)
    with connect() as client:
        job_id = references.job_id(client, job)
        if following:
            follow(client, job_id, selection)
        else:
            _print_new(client, job_id, 0, selection)


def follow(
    client: Client, job_id: str, selection: Selection = ALL, pause: Callable[[float], None] = time.sleep
) -> None:
    """Print lines as they arrive until no more will. It waits while the platform cannot be reached."""
    after, away, ends = 0, False, 0
    client.job(job_id)  # a job that cannot be seen fails at once
    while True:
        try:
            after, ended = _print_new(client, job_id, after, selection)
        except Unreachable as error:
            if not away:
                click.echo(f"{error} Waiting for it.", err=True)
            away, ended = True, False
        else:
            away = False
        # Twice: the last lines may still be on their way when the job is already over.
        ends = ends + 1 if ended else 0
        if ends == 2:
            return
        pause(PAUSE_SECONDS)


def _print_new(client: Client, job_id: str, after: int, selection: Selection) -> tuple[int, bool]:
    """Print the lines after this cursor. Returns the cursor behind them, and whether more can come."""
    while True:
        page = client.logs(job_id, after=after, rank=selection.rank, search=selection.search)
        for line in page.lines:
            click.echo(
                line.text if selection.plain else f"{_prefix(line, selection.rank is None)} {line.text}"
            )
        if page.next == after:
            return page.next, page.ended
        after = page.next


def _prefix(line: LogLine, with_rank: bool) -> str:
    at = time.strftime("%H:%M:%S", time.localtime(line.at_ms / 1000)) if line.at_ms else "        "
    label = f" {_label(line)}" if with_rank else ""
    return click.style(f"{at}{label}", dim=True)


def _label(line: LogLine) -> str:
    rank = f"node {line.rank - LAUNCHERS}" if line.rank >= LAUNCHERS else str(line.rank)
    return f"[{rank}]" if line.attempt <= 1 else f"[{line.attempt}.{rank}]"
