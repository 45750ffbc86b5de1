"""`trainmaster experiments` and `compare`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Mapping, Sequence

import click

from trainmaster.answers import Comparison, Experiment
from trainmaster.cli import output, references
from trainmaster.cli.session import connect


@click.group(invoke_without_command=True)
@click.option("--team", default="", help="Only of this team.")
@click.option("--search", default="", help="Only with this text in the name.")
@output.options
@click.pass_context
def experiments(context: click.Context, team: str, search: str, as_json: bool) -> None:
    """List experiments with their best run, newest first; create, change, delete and restore one."""
    if context.invoked_subcommand is None:
        _list(team, search, as_json)


@experiments.command("list")
@click.option("--team", default="", help="Only of this team.")
@click.option("--search", default="", help="Only with this text in the name.")
@output.options
def list_(team: str, search: str, as_json: bool) -> None:
    """List experiments with their best run, newest first."""
    _list(team, search, as_json)


def _list(team: str, search: str, as_json: bool) -> None:
    with connect() as client:
        rows = client.experiments(team=team, search=search)
    if as_json:
        output.dump(rows)
        return
    output.table(
        ("ID", "EXPERIMENT", "TEAM", "RUNS", "ACTIVE", "BEST RUN", "METRIC", "VALUE", "CHANGED"),
        [
            (
                row.id,
                row.name,
                row.team,
                row.runs,
                row.active,
                *_best(row),
                f"{output.age(row.changed_ms)} ago",
            )
            for row in rows
        ],
        empty="No experiments yet. Name one in a job file: experiment: NAME",
    )


def _best(row: Experiment) -> tuple[object, ...]:
    best = row.best
    return (best["name"], f"{best['rule']} {best['metric']}", best["value"]) if best else (None, None, None)


@experiments.command()
@click.argument("name")
@click.option("--team", default="", help="Team that owns it; not needed if you are in one team only.")
@click.option("--description", default="", help="Markdown.")
def create(name: str, team: str, description: str) -> None:
    """Create the experiment NAME and print its id."""
    with connect() as client:
        body = {"team": client.only_team(team), "name": name, "description": description}
        click.echo(client.call("POST", "experiments", json=body)["id"])


@experiments.command()
@click.argument("experiment", type=click.IntRange(1))
@click.option("--name", default=None, help="New name.")
@click.option("--description", default=None, help="New description in Markdown.")
def change(experiment: int, name: str | None, description: str | None) -> None:
    """Rename or describe EXPERIMENT, given by its id."""
    changes = {"name": name, "description": description}
    given = {field: value for field, value in changes.items() if value is not None}
    if not given:
        raise click.UsageError("Give --name or --description.")
    _change(experiment, given)


@experiments.command()
@click.argument("experiment", type=click.IntRange(1))
def archive(experiment: int) -> None:
    """Hide EXPERIMENT from lists."""
    _change(experiment, {"archived": True})


def _change(experiment: int, changes: Mapping[str, object]) -> None:
    with connect() as client:
        changed = client.call("PATCH", f"experiments/{experiment}", json=changes)
    state = "archived" if changed["archived_ms"] else "changed"
    click.echo(f"Experiment {changed['name']} is {state}.")


@experiments.command()
@click.argument("experiment", type=click.IntRange(1))
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(experiment: int, yes: bool) -> None:
    """Delete EXPERIMENT with its runs. It can be restored until retention removes it."""
    with connect() as client:
        known = client.call("GET", f"experiments/{experiment}")
        if not yes:
            click.confirm(f"Delete {known['name']} with {known['runs']} runs?", abort=True)
        client.call("DELETE", f"experiments/{experiment}")
    click.echo(f"Experiment {known['name']} is deleted.")


@experiments.command()
@click.argument("experiment", type=click.IntRange(1))
def restore(experiment: int) -> None:
    """Restore EXPERIMENT with the runs that were deleted with it, or take it out of the archive."""
    with connect() as client:
        restored = client.call("POST", f"experiments/{experiment}/restore")
    click.echo(f"Experiment {restored['name']} is restored.")


@click.command(
    help=f"""Compare jobs: the settings that differ, and the metrics.

    A metric is shown by the value that counts: the lowest of a loss, the highest of an accuracy, else the last one.
    The best run is marked with *.

    {references.HELP}"""
)
@click.argument("jobs", metavar="JOB...", nargs=-1, required=True, type=references.JOB)
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values, a line for each run.")
@output.options
def compare(jobs: Sequence[str], as_csv: bool, as_json: bool) -> None:
    with connect() as client:
        compared = client.compare([references.job_id(client, job) for job in jobs])
    if as_json:
        output.dump(compared)
    elif as_csv:
        _print_csv(compared)
    else:
        _print_table(compared)


def _print_table(compared: Comparison) -> None:
    titles = ("", *(run["name"] for run in compared.runs))
    rows: list[tuple[object, ...]] = [
        ("job", *(run["job"] for run in compared.runs)),
        ("state", *(run["state"] for run in compared.runs)),
    ]
    rows += [
        (row["name"], *("–" if value is None else _setting(value) for value in row["values"]))
        for row in compared.differences
    ]
    rows += [
        (f"{row['rule']} {row['name']}", *_marked(row["values"], row["best"])) for row in compared.metrics
    ]
    output.table(titles, rows, empty="")
    if not compared.differences and len(compared.runs) > 1:
        click.echo("No recorded setting differs between these runs.", err=True)


def _marked(values: Sequence[float | None], best: int | None) -> list[str]:
    return [
        "–" if value is None else f"{value:.4g}{' *' if index == best else ''}"
        for index, value in enumerate(values)
    ]


def _setting(value: object) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print_csv(compared: Comparison) -> None:
    columns = [row["name"] for row in compared.differences] + [row["name"] for row in compared.metrics]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(["job", "name", "state", "experiment", *columns])
    for index, run in enumerate(compared.runs):
        values = [row["values"][index] for row in (*compared.differences, *compared.metrics)]
        writer.writerow([run["job"], run["name"], run["state"], run["experiment"], *values])
