"""`trainmaster gate`: what versions of models must have proven, their results, approvals and stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import yaml

from trainmaster.cli import output
from trainmaster.cli.session import connect
from trainmaster.client import Client

VERSION_HELP = "VERSION is TEAM/NAME:NUMBER, or NAME:NUMBER if you are in one team only."


@click.group()
def gate() -> None:
    """Gates of models: what a version must have proven before it is promoted, deployed or served."""


@gate.command("show", help=f"Show how a version stands before the gate of its model.\n\n    {VERSION_HELP}")
@click.argument("version")
@output.options
def show(version: str, as_json: bool) -> None:
    with connect() as client:
        path = version_path(client, version)
        standing: Any = client.call("GET", f"{path}/gate")
        runs: Any = client.call("GET", f"{path}/evaluation-runs")
    _print(standing, as_json)
    for row in [] if as_json else runs["results"]:
        click.echo(_run_line(row))


def _run_line(row: Any) -> str:
    job = f", {row['job']}" if row["job"] else ""
    reason = f": {row['reason']}" if row["reason"] else ""
    return f"{row['suite']} v{row['suite_version']} is {row['state']}{job}{reason}"


@gate.command("set")
@click.argument("model")
@click.argument("file", type=click.File())
def set_(model: str, file: Any) -> None:
    """Set the gate of MODEL, TEAM/NAME, from a YAML file; an empty one lets everything through.

    \b
    thresholds:
      - {suite: held-out, metric: accuracy, bound: 0.9, every_slice: true}
    margins:
      - {suite: held-out, metric: accuracy, worse_by: 0.01}
    approvals: 1
    """
    try:
        policy = yaml.safe_load(file) or {}
    except yaml.YAMLError as error:
        raise click.UsageError(f"{file.name} is not YAML: {error}") from error
    with connect() as client:
        client.call("PUT", f"models/{model_path(client, model)}/gate", json=policy)
    click.echo(f"The gate of {model} is set.")


@gate.command("evaluate", help=f"Send the results of a suite for a version.\n\n    {VERSION_HELP}")
@click.argument("version")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--suite", required=True, help="Name of the suite.")
@output.options
def evaluate(version: str, file: Path, suite: str, as_json: bool) -> None:
    with connect() as client:
        path = version_path(client, version)
        client.call("POST", f"{path}/evaluations", json={"suite": suite, "lines": file.read_text()})
        _print(client.call("GET", f"{path}/gate"), as_json)


@gate.command(
    "run", help=f"Have the server evaluate a version by the newest version of a suite.\n\n    {VERSION_HELP}"
)
@click.argument("version")
@click.option("--suite", required=True, help="Name of the suite.")
@click.option("--again", is_flag=True, help="Also where this version of the suite has evaluated it already.")
@output.options
def run(version: str, suite: str, again: bool, as_json: bool) -> None:
    with connect() as client:
        path = f"{version_path(client, version)}/evaluation-runs"
        row: Any = client.call("POST", path, json={"suite": suite, "again": again})
    if as_json:
        output.dump_json(row)
    else:
        click.echo(_run_line(row))


@gate.command("approve", help=f"Approve a version, or take your approval back.\n\n    {VERSION_HELP}")
@click.argument("version")
@click.option("--withdraw", is_flag=True, help="Take your approval back.")
@output.options
def approve(version: str, withdraw: bool, as_json: bool) -> None:
    with connect() as client:
        method = "DELETE" if withdraw else "PUT"
        _print(client.call(method, f"{version_path(client, version)}/approval"), as_json)


@gate.command("stage", help=f"Move a version to a stage, through the gate.\n\n    {VERSION_HELP}")
@click.argument("version")
@click.argument("stage", type=click.Choice(["candidate", "validated", "staging", "production", "archived"]))
@click.option("--archive-others", is_flag=True, help="Archive the versions that are in the stage now.")
@click.option("--override", default="", help="The reason of a platform admin to pass the gate all the same.")
def stage(version: str, stage: str, archive_others: bool, override: str) -> None:
    body = {"stage": stage, "archive_others": archive_others, "override": override}
    with connect() as client:
        row: Any = client.call("PUT", f"{version_path(client, version)}/stage", json=body)
    click.echo(f"{row['model']} version {row['version']} is in {row['stage']}.")


def model_path(client: Client, reference: str) -> str:
    team, _, name = reference.rpartition("/")
    return f"{quote(client.only_team(team), safe='')}/{quote(name, safe='')}"


def version_path(client: Client, reference: str) -> str:
    model, _, number = reference.rpartition(":")
    if not model or not number.isdigit():
        raise click.UsageError(f"{reference} is not NAME:NUMBER, such as bytelm:3.")
    return f"models/{model_path(client, model)}/versions/{number}"


def _print(standing: Any, as_json: bool) -> None:
    if as_json:
        output.dump_json(standing)
        return
    click.echo(f"{standing['model']} version {standing['version']}, stage {standing['stage']}")
    output.table(
        ("SUITE", "METRIC", "SLICE", "MEAN", "95 % INTERVAL", "SAMPLES", "MEASURED BY"),
        [
            (
                row["suite"], name, place, _number(one["mean"]),
                f"{_number(one['low'])} to {_number(one['high'])}", one["samples"], row["measured_by"],
            )
            for row in standing["evaluations"]
            for place, metrics in (("all", row["metrics"]), *sorted(row.get("slices", {}).items()))
            for name, one in metrics.items()
        ],
        empty="No evaluation yet.",
    )  # fmt: skip
    for row in standing["approvals"]:
        click.echo(f"Approved by {row['user']} ({row['role']})")
    for target, reasons in standing["refused"].items():
        click.echo(f"{target}: {'may enter' if not reasons else 'refused'}")
        for reason in reasons:
            click.echo(f"  {reason}")


def _number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.4g}"
