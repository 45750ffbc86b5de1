"""`trainmaster checkpoints`: list the checkpoints of a job, and save one now."""

from __future__ import annotations

import time
from typing import Any

import click

from platform_core.units import format_bytes, format_duration_ms
from trainmaster.cli import output, references
from trainmaster.cli.session import connect

POLL_SECONDS = 1.0


@click.group()
def checkpoints() -> None:
    """Checkpoints of jobs."""


@checkpoints.command(
    "list",
    help=f"""List the checkpoints of a job in the store, and how often it saves.

    {references.HELP}""",
)
@click.argument("job", type=references.JOB)
@output.options
def list_(job: str, as_json: bool) -> None:
    with connect() as client:
        found: Any = client.call("GET", _path(references.job_id(client, job)))
    if as_json:
        output.dump_json(found)
        return
    if found["interval"]:
        interval = found["interval"]
        click.echo(f"{interval['sentence']} Expected loss: {interval['waste']:.1%} of the time.")
    elif found["saving"]:
        click.echo(found["saving"]["sentence"])
    output.table(
        ("ID", "STEP", "ATTEMPT", "SIZE", "SAVED", "STATE"),
        [
            (
                row["id"], row["step"], row["attempt"], format_bytes(row["bytes"]),
                f"{output.age(row['saved_ms'])} ago", "damaged" if row["damaged"] else "good",
            )
            for row in found["results"]
            if row["kept"] or row["damaged"]
        ],
        empty="No checkpoint yet.",
    )  # fmt: skip


@checkpoints.command(
    help=f"""Save a checkpoint of a running job now: when its script asks `checkpoint_due` the next time.

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@click.option("--wait", "wait_seconds", type=float, default=0.0, help="Seconds to wait for the checkpoint.")
@output.options
def save(job: str, wait_seconds: float, as_json: bool) -> None:
    with connect() as client:
        path = _path(references.job_id(client, job))
        order: Any = client.call("POST", path)
        deadline = time.monotonic() + wait_seconds
        while not order["checkpoint"] and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
            found: Any = client.call("GET", path)
            order = found["order"]
    if as_json:
        output.dump_json(order)
    elif order["checkpoint"]:
        click.echo(f"{order['checkpoint']} is saved.")
    else:
        waited = f" within {format_duration_ms(round(1000 * wait_seconds))}" if wait_seconds else " yet"
        click.echo(f"Order {order['order']} is on its way; no checkpoint has answered it{waited}.")


def _path(job_id: str) -> str:
    return f"training-jobs/{job_id}/checkpoints"
