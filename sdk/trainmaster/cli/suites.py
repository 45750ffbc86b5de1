"""`trainmaster suite`: evaluation suites, by which the server measures versions of models."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from trainmaster.cli import job_file, output
from trainmaster.cli.session import connect
from trainmaster.cli.submit import folder_of, send


@click.group()
def suite() -> None:
    """Evaluation suites: the jobs by which the server measures versions of models."""


@suite.command("publish")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE",
    help="Change a field, such as dataset=ds-…; repeatable.",
)  # fmt: skip
@output.options
def publish(file: Path, settings: tuple[str, ...], as_json: bool) -> None:
    """Publish the suite of FILE, a job file with `metrics`, as its next version.

    The folder `code` of the file is sent along. Evaluations run as you, with the quota of the team.
    """
    spec = job_file.change(job_file.read(file), settings)
    with connect() as client:
        spec["team"] = client.only_team(str(spec.get("team") or ""))
        folder = folder_of(file, spec)
        if folder is not None:
            spec["code"] = send(client, folder, spec)
        row: Any = client.call("POST", "evaluation-suites", json=spec)
    if as_json:
        output.dump_json(row)
    else:
        click.echo(f"Suite {row['team']}/{row['name']} is published, version {row['version']}.")


@suite.command("list")
@output.options
def list_(as_json: bool) -> None:
    """List the suites of your teams, each in its newest version."""
    with connect() as client:
        rows: Any = client.call("GET", "evaluation-suites")["results"]
    _print(rows, as_json)


@suite.command("show")
@click.argument("name")
@output.options
def show(name: str, as_json: bool) -> None:
    """List the versions of the suite NAME, or TEAM/NAME, the newest first."""
    team, _, rest = name.rpartition("/")
    with connect() as client:
        path = f"evaluation-suites/{quote(client.only_team(team), safe='')}/{quote(rest, safe='')}"
        rows: Any = client.call("GET", path)["results"]
    _print(rows, as_json)


def _print(rows: Any, as_json: bool) -> None:
    if as_json:
        output.dump_json(rows)
        return
    output.table(
        ("TEAM", "SUITE", "VERSION", "AUTHOR", "METRICS", "COMMAND"),
        [
            (
                row["team"], row["name"], row["version"], row["author"], ", ".join(row["metrics"]),
                " ".join(row["job"]["command"]),
            )
            for row in rows
        ],
        empty="No suite yet.",
    )  # fmt: skip
