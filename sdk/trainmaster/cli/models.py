"""`trainmaster models` and `register`."""

from __future__ import annotations

import click

from platform_core.units import format_bytes
from trainmaster.cli import output
from trainmaster.cli.session import connect, team_of


@click.command()
@output.as_json
def models(as_json: bool) -> None:
    """List the versions of all models."""
    with connect() as client:
        found = client.models()
    if as_json:
        output.dump(found)
        return
    output.table(
        ("MODEL", "VERSION", "STATE", "SIZE", "SOURCE", "REGISTERED"),
        [
            (
                one.model, one.version, one.state, format_bytes(one.bytes) if one.bytes is not None else None,
                one.source, f"{output.age(one.created_ms)} ago" if one.created_ms else None,
            )
            for one in found
        ],
        empty="No models yet. Register one: trainmaster register NAME --checkpoint ckpt-…",
    )  # fmt: skip


@click.command()
@click.argument("name")
@click.option("--checkpoint", default="", help="A checkpoint of a job, ckpt-…")
@click.option("--url", default="", help="Files in a store, s3://… or file://…; they stay where they are.")
@click.option("--team", default="", help="Not needed when you are in one team only.")
@output.as_json
def register(name: str, checkpoint: str, url: str, team: str, as_json: bool) -> None:
    """Register the next version of a model."""
    if bool(checkpoint) == bool(url):
        raise click.UsageError("Give one of --checkpoint and --url.")
    with connect() as client:
        made = client.register_version(
            name, team=team_of(client, team), checkpoint=checkpoint, source_url=url
        )
    if as_json:
        output.dump(made)
        return
    click.echo(f"{made.model} version {made.version}")
    if made.state == "registering":
        click.echo("Its bytes are being read and summed; see `trainmaster models`.", err=True)
