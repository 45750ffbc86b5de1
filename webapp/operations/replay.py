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
    help="Folder of a platform started with `trainmaster up`; if it has none, DATABASE_URL and REDIS_URL are used.",
)  # fmt: skip
@click.option("--save", type=Path, help="Write the recorded input of the round to this file, as JSON.")
def replay_round(number: int | None, folder: Path, save: Path | None) -> None:
    """Plan a recorded scheduling round again and compare the decision.

    ROUND is a number from the queue page; the newest round by default. Exit code 0 if the decision is identical, 1 with
    the difference if not.
    """
    known = folder / "platform.env"
    environment = os.environ | (read_environment(known) if known.exists() else {})
    command = ["python", "manage.py", "replay_round", *([str(number)] if number is not None else [])]
    command += ["--save", str(save.absolute())] if save else []
    sys.exit(subprocess.run(runnable(tuple(command)), cwd=ROOT, env=environment, check=False).returncode)
