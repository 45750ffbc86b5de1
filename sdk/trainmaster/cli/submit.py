"""`trainmaster submit`."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import click

from platform_core.jobs import spec as job_spec
from trainmaster import bundle
from trainmaster.answers import DryRun, Job
from trainmaster.cli import job_file, output
from trainmaster.cli.commands import Failure
from trainmaster.cli.logs import follow
from trainmaster.cli.session import connect
from trainmaster.cli.upload import name_left_out, upload
from trainmaster.client import Client

_NO_CHANGE = "No single change would start it now."


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change a field for this job, such as hyperparameters.lr=0.001; repeatable.",
)
@click.option(
    "--code",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder with the code to send; replaces `code` of the file.",
)
@click.option("--key", default="", help="Idempotency key: a repeated key returns the job it made.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Submit nothing; show when the job would start, and what would start it now.",
)
@click.option("-f", "--follow", "following", is_flag=True, help="Stay and print the log until the job ends.")
@output.options
def submit(
    file: Path,
    settings: tuple[str, ...],
    code: Path | None,
    key: str,
    dry_run: bool,
    following: bool,
    as_json: bool,
) -> None:
    """Submit the job of the job file FILE, and print its id and its page.

    The folder `code` of the file (relative to it), or --code, is sent along: in a git repository all files that git
    does not ignore. What of them cannot be sent is named. The commit and the uncommitted changes are kept with the job.
    """
    spec = job_file.change(job_file.read(file), settings)
    folder = code or folder_of(file, spec)
    with connect() as client:
        spec["team"] = client.only_team(str(spec.get("team") or ""))
        # All problems at once, before anything is sent.
        job_spec.parse({**spec, "code": ""} if folder else spec)
        if dry_run:
            _show_dry_run(client.dry_run({**spec, "code": ""} if folder else spec), as_json)
            return
        if folder is not None:
            spec["code"] = send(client, folder, spec)
        lineage = bundle.lineage(folder or file.parent)
        job = client.submit(spec, idempotency_key=key or uuid.uuid4().hex, lineage=lineage)
        _show(job, as_json)
        if following:
            follow(client, job.id)


def folder_of(file: Path, spec: dict[str, Any]) -> Path | None:
    code = spec.get("code") or ""
    if not isinstance(code, str) or not code or code.startswith("man-"):
        return None
    folder = file.parent / code
    if not folder.is_dir():
        raise Failure(
            f"The code folder {folder} does not exist; `code` in {file} names it, relative to the file."
        )
    return folder


def send(client: Client, folder: Path, spec: dict[str, Any]) -> str:
    files = bundle.code_files(folder)
    name_left_out(bundle.code_left_out(folder, files), "submodules of git")
    if not files:
        raise Failure(f"The code folder {folder} has no files, or git ignores all of them.")
    name = str(spec.get("name") or folder.name)
    return upload(client, "code", str(spec["team"]), name, files, f" of code from {folder}")


def _show_dry_run(prediction: DryRun, as_json: bool) -> None:
    if as_json:
        output.dump(prediction)
        return
    if prediction.outcome == "refused":
        raise Failure(f"It would be refused: {prediction.why}")
    if prediction.outcome == "starts":
        click.echo("It would start at once.")
        return
    click.echo(f"It would wait at position {prediction.position} of the queue: {prediction.why}")
    click.echo(f"Expected start: {prediction.should_start or 'unknown'}.")
    click.echo(
        "\n  ".join(["Any one of these changes would start it now:", *prediction.changes])
        if prediction.changes
        else _NO_CHANGE
    )


def _show(job: Job, as_json: bool) -> None:
    if as_json:
        output.dump(job)
        return
    click.echo(job.id)
    click.echo(job.url)
    if job.waiting:
        click.echo(f"It waits: {job.waiting.get('sentence', '')}", err=True)
