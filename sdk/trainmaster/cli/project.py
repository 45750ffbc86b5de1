"""`trainmaster init`."""

from __future__ import annotations

import re
import string
from importlib import resources
from pathlib import Path

import click

from trainmaster.cli.commands import Failure

FILES = ("train.py", "job.yaml")


@click.command()
@click.argument("folder", default=".", type=click.Path(file_okay=False, path_type=Path))
@click.option("--name", default="", help="Name of the job; that of the folder by default.")
def init(folder: Path, name: str) -> None:
    """Write a small project into FOLDER: a training script and its job file.

    The script runs as it is, on a CPU: python train.py. Files that exist are never overwritten. FOLDER is the current
    folder by default.
    """
    existing = [name for name in FILES if (folder / name).exists()]
    if existing:
        raise Failure(f"{folder} has {' and '.join(existing)} already; nothing was written.")
    values = {"name": name or _name(folder)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in FILES:
            text = resources.files("trainmaster.cli").joinpath("template", file).read_text()
            (folder / file).write_text(string.Template(text).safe_substitute(values))
            click.echo(str(folder / file))
    except OSError as error:
        raise Failure(f"{folder} cannot be written: {error.strerror or error}.") from error
    click.echo(f"Next: cd {folder}, python train.py, then trainmaster submit job.yaml", err=True)


def _name(folder: Path) -> str:
    """The folder's name as a job may be called."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", folder.absolute().name).strip("-._") or "training"
