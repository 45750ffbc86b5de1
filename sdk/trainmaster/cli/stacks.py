"""`trainmaster jobs stacks` and `jobs restart`: look into a job that hangs, and restart it."""

from __future__ import annotations

import time
from typing import Any

import click

from trainmaster.cli import output, references
from trainmaster.cli.jobs import jobs
from trainmaster.cli.session import connect
from trainmaster.client import Client

WAIT_SECONDS, POLL_SECONDS = 30.0, 1.0


@jobs.command(
    help=f"""Dump the stacks of all ranks of a running job into its log, and print them in short.

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@click.option("--last", is_flag=True, help="Print the newest ones there are; order none.")
@output.options
def stacks(job: str, last: bool, as_json: bool) -> None:
    with connect() as client:
        job_id = references.job_id(client, job)
        path = f"training-jobs/{job_id}/stacks"
        found = _read(client, path) if last else _ordered(client, path)
    if as_json:
        output.dump_json(found)
        return
    if found["hang"]:
        click.echo(f"{found['hang']['sentence'].rstrip('.')}.")
    output.table(
        ("RANK", "STEP", "IN", "FUNCTION", "AT", "STATE"),
        [
            (
                stack["rank"], stack["step"], stack["activity"], stack["function"], stack["location"],
                stack["state"] or ("moving" if stack["moving"] else "waiting"),
            )
            for stack in found["ranks"]
        ],
        empty="No stacks yet. Its ranks must be started by the platform (every strategy but custom).",
    )  # fmt: skip


@jobs.command(
    help=f"""Restart a job that hangs, from its last checkpoint.

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
def restart(job: str) -> None:
    with connect() as client:
        job_id = references.job_id(client, job)
        body: Any = client.call("POST", f"training-jobs/{job_id}/restart")
    click.echo(f"{body['id']} ({body['name']}) stops now and restarts from its last checkpoint.")


def _ordered(client: Client, path: str) -> dict[str, Any]:
    """The stacks after the order, once they differ from those before it, or those there are after half a minute."""
    before = _read(client, path)
    client.call("POST", path)
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        found = _read(client, path)
        if found["taken_ms"] > before["taken_ms"]:
            return found
        time.sleep(POLL_SECONDS)
    return _read(client, path)


def _read(client: Client, path: str) -> dict[str, Any]:
    body: Any = client.call("GET", path)
    return dict(body)
