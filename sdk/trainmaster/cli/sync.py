"""`trainmaster sync`."""

from __future__ import annotations

from pathlib import Path

import click

from trainmaster import laptop
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.session import connect
from trainmaster.client import ApiError, Client
from trainmaster.console import warn
from trainmaster.tracking.folder import EVENTS, RunFolder, named
from trainmaster.tracking.sender import Sender


@click.command()
@click.argument("folders", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--team", default="", help="Team of runs that the platform does not know yet.")
@click.option("--experiment", default="", help="Experiment of runs that the platform does not know yet.")
@output.no_color
def sync(folders: tuple[Path, ...], team: str, experiment: str) -> None:
    """Send runs that were kept on this machine: without network, without login, or of a killed process.

    FOLDERS are runs, or folders with runs in them; without one ./trainmaster-runs. What was sent before is not sent
    again. A run whose process still runs is left to it. A run that has no end was killed, and ends as failed.
    """
    runs = sorted({run for folder in folders or (Path(laptop.RUNS),) for run in _runs(folder)})
    if not runs:
        click.echo(f"There is no run in {', '.join(map(str, folders)) or laptop.RUNS}.", err=True)
        return
    failed = 0
    with connect() as client:
        for path in runs:
            try:
                _send(path, client, team, experiment)
            except ApiError as error:
                if error.status == 401:  # as for all others
                    raise
                failed += 1
                warn(f"{path}: {error}")
    if failed:
        raise Failure(f"{failed} of {len(runs)} runs were not sent.")


def _runs(folder: Path) -> list[Path]:
    if (folder / EVENTS).is_file():
        return [folder]
    return [file.parent for file in folder.glob(f"*/{EVENTS}")] if folder.is_dir() else []


def _send(path: Path, client: Client, team: str, experiment: str) -> None:
    with RunFolder(path) as folder:
        if not folder.hold():
            click.echo(f"{path}: its process still runs and sends it.")
            return
        if not folder.cursor(client.url).offset:
            folder.keep_identity(named(folder.identity(), team=team, experiment=experiment))
        sender = Sender(folder, client, warn)
        before = sender.cursor.offset
        while sender.send_next():
            pass
        if not sender.cursor.ended:
            sender.finish_killed()
        sent = sender.cursor.offset - before
        click.echo(f"{path}: {f'{sent:,} bytes sent' if sent else 'nothing was left to send'}; {sender.url}")
