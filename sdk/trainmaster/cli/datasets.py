"""`trainmaster dataset list` and `push`."""

from __future__ import annotations

from pathlib import Path

import click

from platform_core.units import format_bytes
from trainmaster import bundle
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.session import connect
from trainmaster.cli.upload import upload


@click.group()
def dataset() -> None:
    """List datasets, or send a folder as a new snapshot of one."""


@dataset.command("list")
@click.option("--team", default="", help="Only of this team.")
@click.option("--name", default="", help="Only of the dataset with this name.")
@output.options
def list_(team: str, name: str, as_json: bool) -> None:
    """List the snapshots of datasets, newest first.

    A job names a snapshot by its ID as `dataset`, with one of its purposes as `purpose`.
    """
    with connect() as client:
        snapshots = client.datasets(team=team, name=name)
    if as_json:
        output.dump(snapshots)
        return
    output.table(
        ("DATASET", "VERSION", "ID", "TEAM", "PURPOSE", "FILES", "SIZE", "PUSHED", "BY"),
        [
            (
                snapshot.name, snapshot.version, snapshot.id, snapshot.team, snapshot.purpose, snapshot.files,
                format_bytes(snapshot.bytes), f"{output.age(snapshot.created_ms)} ago", snapshot.created_by,
            )
            for snapshot in snapshots
        ],
        empty="No datasets. Send one: trainmaster dataset push FOLDER --name NAME --purpose train",
    )  # fmt: skip


@dataset.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--name", required=True, help="Name of the dataset.")
@click.option("--team", default="", help="Team that owns it; not needed if you are in one team only.")
@click.option(
    "--purpose", required=True, help="What jobs may use it for, separated by commas, such as train,eval."
)
@output.options
def push(folder: Path, name: str, team: str, purpose: str, as_json: bool) -> None:
    """Send FOLDER as the next snapshot of a dataset, and print its id.

    The same content and purpose again give the same snapshot.
    """
    files = bundle.data_files(folder)
    if not files:
        raise Failure(f"{folder} has no files.")
    with connect() as client:
        team = client.only_team(team)
        manifest = upload(client, "dataset", team, name, files, f" from {folder}")
        snapshot = client.add_snapshot(name, team=team, manifest=manifest, purpose=purpose)
    if as_json:
        output.dump(snapshot)
        return
    click.echo(snapshot.id)
    if snapshot.version:
        click.echo(f"This is version {snapshot.version} of {name}.", err=True)
