"""`trainmaster checkpoints`: list the checkpoints of a job, save one now, pin one, and preview retention."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote

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
        _show_interval(found["interval"])
    elif found["saving"]:
        click.echo(found["saving"]["sentence"])
    output.table(
        ("ID", "STEP", "ATTEMPT", "SIZE", "SAVED", "STATE", "PINNED BY"),
        [
            (
                row["id"], row["step"], row["attempt"], format_bytes(row["bytes"]),
                f"{output.age(row['saved_ms'])} ago", "damaged" if row["damaged"] else "good", row["pinned_by"] or "-",
            )
            for row in found["results"]
            if row["kept"] or row["damaged"]
        ],
        empty="No checkpoint yet.",
    )  # fmt: skip


def _show_interval(interval: dict[str, Any]) -> None:
    waste, inputs = interval["waste"], interval["inputs"]
    loss = "under 0.1%" if waste < 0.001 else f"{waste:.1%}"
    click.echo(f"{interval['sentence']} Expected loss: {loss} of the time.")
    times = {
        "blocking C": inputs["blocking_ms"],
        "in the store after": inputs["stored_ms"],
        "between failures M": interval["mtbf_ms"],
        "restart": inputs["restart_ms"],
    }
    click.echo(interval["formula"])
    click.echo(", ".join(f"{name} {format_duration_ms(value)}" for name, value in times.items()))


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


@checkpoints.command(
    help=f"""Keep a checkpoint of a job from retention, until it is unpinned.

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@click.argument("checkpoint")
@output.options
def pin(job: str, checkpoint: str, as_json: bool) -> None:
    _pin("PUT", job, checkpoint, as_json)


@checkpoints.command(
    help=f"""Let the rule of its job decide again about a checkpoint.

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@click.argument("checkpoint")
@output.options
def unpin(job: str, checkpoint: str, as_json: bool) -> None:
    _pin("DELETE", job, checkpoint, as_json)


@checkpoints.command(
    help=f"""Show which checkpoints of a job its rule keeps; with options, what another rule would delete.

    Nothing is deleted without --apply. {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@click.option("--keep-last", type=int, help="The newest N stay.")
@click.option("--best", type=int, help="The best N by --metric stay.")
@click.option("--metric", help="Metric of the best, such as loss.")
@click.option("--direction", type=click.Choice(["lowest", "highest"]), help="Which value is the best.")
@click.option("--every-hours", type=int, help="One of each stretch of N hours stays.")
@click.option("--max-age-days", type=float, help="The best and the hourly ones go when they are older.")
@output.options
@click.option(
    "--apply", "applying", is_flag=True, help="Set this rule, instead of showing what it would delete."
)
def retention(job: str, as_json: bool, applying: bool, **rule: Any) -> None:
    given = {name: value for name, value in rule.items() if value is not None}
    with connect() as client:
        path = f"training-jobs/{references.job_id(client, job)}/retention"
        method = "PUT" if applying else "POST" if given else "GET"
        found: Any = client.call(method, path, **({} if method == "GET" else {"json": given}))
    if as_json:
        output.dump_json(found)
        return
    output.table(
        ("ID", "STEP", "SIZE", "BY THIS RULE"),
        [
            (
                row["checkpoint"], row["step"], format_bytes(row["bytes"]),
                f"stays: {', '.join(row['stays'])}" if row["stays"] else f"goes: {row['goes']}",
            )
            for row in found["results"]
        ],
        empty="No checkpoint yet.",
    )  # fmt: skip
    click.echo(
        f"{format_bytes(found['deleted_bytes'])} of {format_bytes(found['job_bytes'])} of this job go; its team has "
        f"{format_bytes(found['team_bytes'])} of checkpoints."
    )


@checkpoints.command(
    help=f"""Delete checkpoints of a job, whatever its rule says. Pinned ones and those in use are refused.

    {references.HELP}"""
)
@click.argument("job", type=references.JOB)
@click.argument("checkpoint", nargs=-1, required=True)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@output.options
def delete(job: str, checkpoint: tuple[str, ...], dry_run: bool, as_json: bool) -> None:
    with connect() as client:
        path, params = _path(references.job_id(client, job)), {"dry_run": str(dry_run).lower()}
        done: list[Any] = [
            client.call("DELETE", f"{path}/{quote(one, safe='')}", params=params) for one in checkpoint
        ]
    if as_json:
        output.dump_json(done)
        return
    verb = "would be deleted" if dry_run else "is deleted"
    for row in done:
        size = f"{format_bytes(row['freed_bytes'])} of {format_bytes(row['bytes'])}"
        click.echo(f"{row['checkpoint']} of step {row['step']:,} {verb}: {size} leave the store.")


def _pin(method: str, job: str, checkpoint: str, as_json: bool) -> None:
    with connect() as client:
        row: Any = client.call(
            method, f"{_path(references.job_id(client, job))}/{quote(checkpoint, safe='')}/pin"
        )
    if as_json:
        output.dump_json(row)
    else:
        by = f"pinned by {row['pinned_by']}" if row["pinned_by"] else "not pinned"
        click.echo(f"{row['id']} of step {row['step']:,} is {by}.")


def _path(job_id: str) -> str:
    return f"training-jobs/{job_id}/checkpoints"
