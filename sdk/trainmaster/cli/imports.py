"""`trainmaster import`: runs of other trackers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from platform_core.units import plural
from trainmaster.answers import Answer
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.session import connect
from trainmaster.client import ApiError, Client, ClientError
from trainmaster.importers import mlflow, mlflow_registry, tensorboard, wandb
from trainmaster.importers.mlflow_server import MlflowServer
from trainmaster.importers.runs import SourceError, SourceRun
from trainmaster.importers.sending import parents_first, send

_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)
_AGAIN = "What of it came in is kept, marked as failed; the same import completes it."
_PLACE = click.Path(exists=True, path_type=Path)


@dataclass(frozen=True, slots=True)
class Imported(Answer):
    """What was sent of one run; of what was there already nothing changed."""

    run: str
    name: str
    experiment: str
    points: int
    values: int
    files: int


@click.group(name="import")
def import_group() -> None:
    """Bring in runs of TensorBoard, MLflow or W&B. Run again, nothing is doubled."""


def _options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--team", default="", help="Team that gets the runs; by default your only one."),
        click.option(
            "--experiment", default="", help="Experiment that gets the runs; made where it is missing."
        ),
        output.options,
    ):
        command = option(command)
    return command


@import_group.command("tensorboard")
@click.argument("folder", metavar="DIR", type=_FOLDER)
@_options
def import_tensorboard(folder: Path, team: str, experiment: str, as_json: bool) -> None:
    """Import the event files below DIR: one run for each folder that a TensorBoard would show."""
    with connect() as client:
        name = experiment or folder.resolve().name
        _import(client, team, lambda: tensorboard.runs_of(folder, name), as_json)


@import_group.command("wandb")
@click.argument("place", metavar="DIR|FILE", type=_PLACE)
@_options
def import_wandb(place: Path, team: str, experiment: str, as_json: bool) -> None:
    """Import runs of W&B: its `wandb` folder, one run folder, or exported histories (.csv, .jsonl)."""
    with connect() as client:
        _import(client, team, lambda: wandb.runs_of(place, experiment), as_json)


@import_group.command("mlflow")
@click.argument("url", metavar="URL")
@_options
@click.option("--only", default="", metavar="NAME", help="Only the experiment of this name on that server.")
@click.option("--token", envvar="MLFLOW_TRACKING_TOKEN", default="", help="Token for that server.")
def import_mlflow(url: str, team: str, experiment: str, as_json: bool, only: str, token: str) -> None:
    """Import the runs of the MLflow server at URL with their whole history and artifacts, and its model registry:
    models, versions with their files, tags, stages and aliases.

    A password goes into the address: http://USER:PASSWORD@HOST.
    """
    with connect() as client, MlflowServer(url, token) as server:
        ids = _import(client, team, lambda: mlflow.runs_of(server, only, experiment), as_json)
        if not experiment:
            mlflow.describe_experiments(client, client.only_team(team), server, only)
        _import_registry(client, client.only_team(team), server, ids, only, as_json)


def _import_registry(
    client: Client, team: str, server: MlflowServer, ids: Mapping[str, str], only: str, as_json: bool
) -> None:
    """Of one experiment alone, what belongs to its runs; a version that is left out is no news then."""
    try:
        for sent in mlflow_registry.send_models(client, team, server, ids):
            if not as_json and (sent.versions or not only):
                click.echo(f"model {sent.name}: {plural(sent.versions, 'new version')}")
            for sentence in sent.left_out if not only else ():
                click.echo(sentence, err=True)
    except SourceError as error:
        raise Failure(f"{error}.") from error


def _import(
    client: Client, team: str, runs_of: Callable[[], Iterable[SourceRun]], as_json: bool
) -> dict[str, str]:
    """Identity at the source → id here."""
    team = client.only_team(team)
    ids: dict[str, str] = {}
    rows: list[Imported] = []
    not_whole: list[str] = []
    try:
        for run in parents_first(list(runs_of())):
            experiment = run.experiment or "Default"
            try:
                sent = send(client, team, experiment, run)
            except (ApiError, SourceError, OSError) as error:  # of this run alone
                not_whole.append(run.name)
                click.echo(f"{run.name} is not imported whole: {error}", err=True)
                continue
            except ClientError as error:
                raise Failure(f"{run.name} is not imported whole: {error} {_AGAIN}") from error
            ids[run.identity] = sent.id
            rows.append(Imported(sent.id, run.name, experiment, sent.points, sent.values, sent.files))
            for sentence in sent.left_out:
                click.echo(f"{run.name}: {sentence}", err=True)
            if not as_json:
                counts = f"{sent.points:,} points, {sent.values:,} values, {sent.files:,} files"
                click.echo(f"{sent.id}  {run.name}: {counts}")
    except SourceError as error:
        raise Failure(f"{error}.") from error
    except ImportError as error:
        raise Failure(
            f"This needs more than is installed here ({error}): pip install 'trainmaster[export]'"
        ) from error
    if as_json:
        output.dump(rows)
    if not_whole:
        raise Failure(
            f"{plural(len(not_whole), 'run')} of {len(not_whole) + len(rows)} not imported whole. {_AGAIN}"
        )
    if not as_json and not rows:
        click.echo("There are no runs to import.", err=True)
    return ids
