"""`trainmaster queue`."""

from __future__ import annotations

import click

from trainmaster.answers import QueueEntry
from trainmaster.cli import output
from trainmaster.cli.session import connect


@click.command()
@click.option(
    "-n", "--limit", default=50, show_default=True, type=click.IntRange(1, 500), help="Jobs to show at most."
)
@output.options
def queue(limit: int, as_json: bool) -> None:
    """List the waiting jobs: position, expected start and reason.

    The queue has the jobs of all teams, next to start first. A job of another team shows its team and size only.
    """
    with connect() as client:
        entries = client.queue(limit)
    if as_json:
        output.dump(entries)
        return
    output.table(
        ("#", "JOB", "TEAM", "GPUS", "TYPE", "PRIORITY", "WAITS FOR", "EXPECTED START", "REASON"),
        [
            (
                entry.position, entry.name, entry.team, entry.gpus, entry.gpu_type, entry.priority,
                output.age(entry.since_ms), _start(entry), entry.reason,
            )
            for entry in entries
        ],
        empty="The queue is empty.",
    )  # fmt: skip


def _start(entry: QueueEntry) -> str:
    return f"{entry.expected_start or 'unknown'}{', nodes reserved' if entry.reserved else ''}"
