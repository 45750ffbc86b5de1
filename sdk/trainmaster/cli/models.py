"""`trainmaster models` and `register`."""

from __future__ import annotations

from pathlib import Path

import click

from platform_core.units import format_bytes
from trainmaster import bundle
from trainmaster.cli import output
from trainmaster.cli.session import connect
from trainmaster.cli.upload import upload


@click.command()
@output.options
def models(as_json: bool) -> None:
    """List the versions of all models."""
    with connect() as client:
        rows = client.models()
    if as_json:
        output.dump(rows)
        return
    output.table(
        ("MODEL", "VERSION", "STATE", "SIZE", "SOURCE", "REGISTERED"),
        [
            (
                row.model, row.version, row.state, format_bytes(row.bytes) if row.bytes is not None else None,
                row.source, f"{output.age(row.created_ms)} ago" if row.created_ms else None,
            )
            for row in rows
        ],
        empty="No models yet. Register one: trainmaster register NAME --checkpoint ckpt-…",
    )  # fmt: skip


@click.command()
@click.argument("name")
@click.option(
    "--checkpoint",
    default="",
    help="Id of a checkpoint, ckpt-…, as `show JOB` prints it.",
)
@click.option(
    "--url", default="", help="Folder of files in a store, s3://… or file://…; the files stay there."
)
@click.option(
    "--folder", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of files here, such as what `export-model` wrote; they are sent.",
)  # fmt: skip
@click.option("--team", default="", help="Team that owns it; not needed if you are in one team only.")
@output.options
def register(name: str, checkpoint: str, url: str, folder: Path | None, team: str, as_json: bool) -> None:
    """Register the next version of the model NAME, from a checkpoint, from files in a store, or from a folder."""
    if sum(map(bool, (checkpoint, url, folder))) != 1:
        raise click.UsageError("Give one of --checkpoint, --url and --folder.")
    with connect() as client:
        owner = client.only_team(team)
        manifest = ""
        if folder is not None:
            files = bundle.data_files(folder)
            if not files:
                raise click.UsageError(f"The folder {folder} has no files.")
            manifest = upload(client, "model", owner, name, files, f" of the model {name}")
        version = client.register_version(
            name, team=owner, checkpoint=checkpoint, source_url=url, manifest=manifest
        )
    if as_json:
        output.dump(version)
        return
    click.echo(f"{version.model} version {version.version}")
    if version.state == "registering":
        click.echo("Its files are being read and verified; see `trainmaster models`.", err=True)
