"""`trainmaster export`: runs for other tools."""

from __future__ import annotations

from pathlib import Path

import click

from trainmaster.cli.commands import Failure
from trainmaster.cli.session import connect
from trainmaster.client import ApiError, Client
from trainmaster.exporters import parquet, tensorboard
from trainmaster.exporters.runs import ExportedRun, run_of, runs_of


@click.command()
@click.argument("what", metavar="RUN|EXPERIMENT")
@click.option(
    "--to", "form", type=click.Choice(["parquet", "tensorboard"]), required=True, help="What to write."
)
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
def export(what: str, form: str, folder: Path) -> None:
    """Write a run, or all runs of an experiment, into DIR: event files of TensorBoard, or Parquet, with their images,
    sounds, tables, histograms and texts.

    RUN is its id; EXPERIMENT its name or number.
    """
    with connect() as client:
        runs = _runs(client, what)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            if form == "parquet":
                count = parquet.write(client, runs, folder)
            else:
                count = sum(tensorboard.write(client, run, folder) for run in runs)
        except ImportError as error:
            raise Failure(
                f"This needs more than is installed here ({error}): pip install 'trainmaster[export]'"
            ) from error
    click.echo(f"{len(runs):,} runs with {count:,} points are in {folder}")


def _runs(client: Client, what: str) -> list[ExportedRun]:
    try:
        return [run_of(client, what)]
    except ApiError as error:
        if error.status != 404:
            raise
    experiments = client.call("GET", "experiments", params={"search": what} if not what.isdigit() else {})[
        "results"
    ]
    chosen = [row for row in experiments if what in (str(row["id"]), row["name"])]
    if not chosen:
        raise Failure(f"There is no run and no experiment {what} among your teams.")
    if len(chosen) > 1:
        numbers = ", ".join(f"{row['id']} of {row['team']}" for row in chosen)
        raise Failure(f"{len(chosen)} experiments are called {what}: {numbers}. Give the number.")
    return list(runs_of(client, int(chosen[0]["id"])))
