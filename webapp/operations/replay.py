"""`trainmaster replay-round`: a recorded decision of the scheduler, made again."""

import os
import subprocess
import sys
from pathlib import Path

import click

from webapp.operations.programs import ROOT, runnable
from webapp.operations.state_folder import read_environment


@click.command("replay-round")
@click.argument("number", metavar="[ROUND]", required=False, type=int)
@click.option(
    "--dir", "folder", default="var", show_default=True, type=Path,
    help="Of a platform that was started with `trainmaster up`; without it the environment says where its database is.",
)  # fmt: skip
@click.option("--save", type=Path, help="Write all that was known then into this file, as JSON.")
def replay_round(number: int | None, folder: Path, save: Path | None) -> None:
    """Make a recorded scheduling round again: the newest, or the one whose number the queue page shows.

    Exit code 0 when the decision is the same to the byte; else the difference is shown.
    """
    known = folder / "platform.env"
    environment = os.environ | (read_environment(known) if known.exists() else {})
    command = ["python", "manage.py", "replay_round", *([str(number)] if number is not None else [])]
    command += ["--save", str(save.absolute())] if save else []
    sys.exit(subprocess.run(runnable(tuple(command)), cwd=ROOT, env=environment, check=False).returncode)
