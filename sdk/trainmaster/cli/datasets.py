"""`trainmaster dataset push`."""

from __future__ import annotations

from pathlib import Path

import click

from platform_core.units import format_bytes
from trainmaster import bundle
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.session import connect, team_of


@click.group()
def dataset() -> None:
    """Send datasets: `trainmaster dataset push`."""


@dataset.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--name", required=True, help="Of the dataset; its next snapshot is made.")
@click.option("--team", default="", help="Not needed when you are in one team only.")
@click.option("--purpose", required=True, help="What it may be used for, by commas, such as train,eval.")
@output.as_json
def push(folder: Path, name: str, team: str, purpose: str, as_json: bool) -> None:
    """Send a folder as the next snapshot of a dataset.

    The snapshot's id is printed. The same content and purpose again give the same snapshot.
    A job names it as `dataset`, with `purpose`.
    """
    files = bundle.data_files(folder)
    if not files:
        raise Failure(f"{folder} has no files.")
    size = sum(path.stat().st_size for _, path in files)
    click.echo(f"Sending {len(files)} files, {format_bytes(size)}, from {folder}", err=True)
    with connect() as client:
        team = team_of(client, team)
        manifest = client.upload("dataset", team, name, files)
        snapshot = client.add_snapshot(name, team=team, manifest=manifest, purpose=purpose)
    if as_json:
        output.dump(snapshot)
        return
    click.echo(snapshot.id)
    if snapshot.version:
        click.echo(f"This is version {snapshot.version} of {name}.", err=True)
