"""`trainmaster logs`."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from trainmaster.answers import LogLine
from trainmaster.cli.session import connect
from trainmaster.client import Client, Unreachable

LAUNCHERS = 1_000_000  # the launcher of node n writes as this rank + n
PAUSE_SECONDS = 1.0


@click.command()
@click.argument("job")
@click.option(
    "-f", "--follow", "following", is_flag=True, help="Stay and print what comes until the job ends."
)
@click.option("--rank", type=click.IntRange(0), help="Of this rank only.")
@click.option("--search", default="", help="Only lines with this text.")
def logs(job: str, following: bool, rank: int | None, search: str) -> None:
    """Print the log lines of all ranks of a job."""
    with connect() as client:
        if following:
            follow(client, job, rank=rank, search=search)
        else:
            _print_all(client, job, 0, rank, search)


def follow(
    client: Client,
    job: str,
    *,
    rank: int | None = None,
    search: str = "",
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Print lines as they come until no more will. A platform that is away for a while is waited for."""
    after, away, ends = 0, False, 0
    client.job(job)  # what cannot be reached or seen at all is told at once
    while True:
        try:
            after, ended = _print_all(client, job, after, rank, search)
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


def _print_all(client: Client, job: str, after: int, rank: int | None, search: str) -> tuple[int, bool]:
    """Everything there is now: the cursor behind it, and whether more can come."""
    while True:
        page = client.logs(job, after=after, rank=rank, search=search)
        for line in page.lines:
            click.echo(line.text if rank is not None else f"{_label(line)} {line.text}")
        if page.next == after:
            return page.next, page.ended
        after = page.next


def _label(line: LogLine) -> str:
    who = f"node {line.rank - LAUNCHERS}" if line.rank >= LAUNCHERS else str(line.rank)
    return f"[{who}]" if line.attempt <= 1 else f"[{line.attempt}.{who}]"
