"""`trainmaster export-model`: a trained module in the formats that servers load, checked and measured."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from platform_core.registry import export_report
from platform_core.registry.exports import is_same
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.session import connect
from trainmaster.cli.targets import DTYPES, FORMATS, row_of
from trainmaster.serving.runtimes.custom import LoadError

PACKAGE = "trainmaster.model_export"  # imported where it is used: other commands need no torch


@click.command("export-model")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--entry", required=True, metavar="MODULE:NAME", help="What makes the module, without arguments."
)
@click.option(
    "--samples", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Rows of the same shape, in a file of numpy.save.",
)  # fmt: skip
@click.option("--state", default="model", help="Key of the weights in the state of a checkpoint.")
@click.option(
    "--format", "formats", type=click.Choice(FORMATS), multiple=True, help="What to write; repeatable."
)
@click.option("--dtype", type=click.Choice(DTYPES), help="In which it computes.")
@click.option("--target", default="", help="Serving target to meet, TEAM/NAME or NAME.")
@click.option("--repeats", default=100, type=click.IntRange(1), help="Of the measurement of latency.")
@output.options
def export_model(
    source: Path, folder: Path, entry: str, samples: Path, state: str, formats: tuple[str, ...], dtype: str | None,
    target: str, repeats: int, as_json: bool,
) -> None:  # fmt: skip
    """Write the model of SOURCE into DIR, compare each file with it, and measure latency and memory.

    SOURCE is a folder with weights, a file of weights (.pt, .pth, .safetensors) or the folder of a checkpoint. Without
    --format it is written as the target asks, else in every format that this Python can write. `export.json` in DIR
    has the results, and comes with the version that is registered from DIR. Ends with 1 where an export
    differs or could not be made, or none serves the target.
    """
    try:
        import numpy as np

        run, weights = import_module(f"{PACKAGE}.run"), import_module(f"{PACKAGE}.source")
    except ModuleNotFoundError as error:
        raise Failure(f"Exporting a model needs {error.name}, which this Python does not have.") from error
    asked = _target(target)
    try:
        rows = np.load(samples, allow_pickle=False)
        report = run.export_model(
            weights.module_of(source, entry, state), rows, folder, target=asked, formats=formats, dtype=dtype or "",
            repeats=repeats,
        )  # fmt: skip
    except (LoadError, ValueError) as error:
        raise Failure(str(error)) from error
    document = json.loads((folder / "export.json").read_text())
    if as_json:
        output.dump_json(document)
    else:
        _print(document, folder)
    if not all(map(is_same, report.exports)) or all(document["refused"].values()):
        raise SystemExit(1)


def _target(name: str) -> Any:
    if not name:
        return None
    with connect() as client:
        team, _, short = name.rpartition("/")
        team = client.only_team(team)
        rows: Any = client.call("GET", "serving-targets")["results"]
    for row in rows:
        if (row["team"], row["name"]) == (team, short):
            return export_report.target(short, row["constraints"])
    raise Failure(f"Team {team} has no serving target {short}; see `trainmaster targets list`.")


def _print(document: Any, folder: Path) -> None:
    output.table(
        ("FORMAT", "DTYPE", "DIFFERENCE", "P50 MS", "P95 MS", "MEMORY", "PROBLEM"),
        [row_of(export) for export in document["exports"]],
        empty="No export.",
    )
    for format, reasons in document["refused"].items():
        for reason in reasons:
            click.echo(f"{format}: {reason}")
    click.echo(f"The exports and export.json are in {folder}", err=True)
