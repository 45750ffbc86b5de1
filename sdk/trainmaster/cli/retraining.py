"""`trainmaster retrain`: when models are trained again, and the cycles that do it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import yaml

from trainmaster.cli import output
from trainmaster.cli.session import connect
from trainmaster.client import Client

MODEL = click.argument("model", metavar="[TEAM/]MODEL")


@click.group()
def retrain() -> None:
    """Train models again when production drifts, decays or ages, through evaluation and gate to a canary.

    MODEL alone is a model of your only team.
    """


@retrain.command("list")
@output.options
def list_(as_json: bool) -> None:
    """List the models of your teams that have a policy."""
    with connect() as client:
        rows: Any = client.call("GET", "retraining")["results"]
    if as_json:
        output.dump_json(rows)
        return
    lines = [
        (
            row["team"], row["model"], row["policy"]["endpoint"], row["author"],
            row["held"]["sentence"], "; ".join(row["held"]["reasons"]),
        )
        for row in rows
    ]  # fmt: skip
    titles = ("TEAM", "MODEL", "ENDPOINT", "AS", "ASKS", "HELD BY")
    output.table(titles, lines, empty="No model has a policy. Set one: trainmaster retrain set MODEL FILE")


@retrain.command("set")
@MODEL
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def set_(model: str, file: Path) -> None:
    """Set when MODEL is retrained, from a YAML file; its cycles act as you.

    \b
    endpoint: mlp
    drift: true
    max_age_days: 30
    approve_training: true
    """
    try:
        policy = yaml.safe_load(file.read_text()) or {}
    except yaml.YAMLError as error:
        raise click.UsageError(f"{file} is not YAML: {error}") from error
    with connect() as client:
        client.call("PUT", _path(client, model), json=policy)
    click.echo(f"{model} is retrained by this policy from now on.")


@retrain.command("delete")
@MODEL
def delete(model: str) -> None:
    """Retrain MODEL no more; a cycle under way goes on."""
    with connect() as client:
        client.call("DELETE", _path(client, model))
    click.echo(f"{model} is not retrained by itself any more.")


@retrain.command("show")
@MODEL
@output.options
def show(model: str, as_json: bool) -> None:
    """List the cycles of MODEL, the newest first."""
    with connect() as client:
        rows: Any = client.call("GET", f"{_path(client, model)}/cycles")["results"]
    if as_json:
        output.dump_json(rows)
        return
    lines = [
        (
            row["id"],
            row["state"],
            row["cause"],
            row["job"],
            row["version"],
            output.age(row["began_ms"]),
            row["reason"],
        )
        for row in rows
    ]
    output.table(("CYCLE", "STATE", "CAUSE", "JOB", "VERSION", "BEGAN", "WHY"), lines, empty="No cycle yet.")


@retrain.command("start")
@MODEL
@output.options
def start(model: str, as_json: bool) -> None:
    """Begin a cycle of MODEL now, within the limits of its policy."""
    with connect() as client:
        _print(client.call("POST", f"{_path(client, model)}/cycles"), as_json)


@retrain.command("approve")
@click.argument("cycle")
@output.options
def approve(cycle: str, as_json: bool) -> None:
    """Approve the step that CYCLE waits with: its training job, or its canary."""
    with connect() as client:
        _print(client.call("POST", f"retraining-cycles/{quote(cycle, safe='')}/approval"), as_json)


@retrain.command("cancel")
@click.argument("cycle")
@output.options
def cancel(cycle: str, as_json: bool) -> None:
    """End CYCLE: its job is stopped, its canary rolled back."""
    with connect() as client:
        _print(client.call("POST", f"retraining-cycles/{quote(cycle, safe='')}/cancel"), as_json)


def _path(client: Client, model: str) -> str:
    team, _, name = model.rpartition("/")
    return f"models/{quote(client.only_team(team), safe='')}/{quote(name, safe='')}/retraining"


def _print(row: Any, as_json: bool) -> None:
    if as_json:
        output.dump_json(row)
        return
    click.echo(f"{row['id']} is {row['state']}. {row['meaning']}")
