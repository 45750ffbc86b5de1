"""`trainmaster submit`."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import click

from platform_core.jobs import spec as job_spec
from platform_core.units import format_bytes
from trainmaster import bundle
from trainmaster.answers import DryRun, Job
from trainmaster.cli import job_file, output
from trainmaster.cli.commands import Failure
from trainmaster.cli.logs import follow
from trainmaster.cli.session import connect, team_of
from trainmaster.client import Client

_NO_CHANGE = "No single change of it would start it now."


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a field: hyperparameters.lr=0.001"
)
@click.option(
    "--code",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder to send along as the code.",
)
@click.option("--key", default="", help="Idempotency key: the same one again gives the same job.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only say what it would meet: when it would start, and what would start it now.",
)
@click.option("-f", "--follow", "following", is_flag=True, help="Stay and print its logs until it ends.")
@output.as_json
def submit(
    file: Path,
    settings: tuple[str, ...],
    code: Path | None,
    key: str,
    dry_run: bool,
    following: bool,
    as_json: bool,
) -> None:
    """Submit the job that FILE describes.

    FILE is YAML with the fields of a job. The job's id and its address are printed.

    A folder of code, from --code or from `code:` in the file (relative to it), goes along: in a git repository what
    git does not ignore. The commit and what is not committed yet are kept with the job.
    """
    spec = job_file.change(job_file.read(file), settings)
    folder = code or _folder(file, spec)
    with connect() as client:
        spec["team"] = team_of(client, str(spec.get("team") or ""))
        # All problems at once, before anything is sent.
        job_spec.parse({**spec, "code": ""} if folder else spec)
        if dry_run:
            _tell_dry_run(client.dry_run({**spec, "code": ""} if folder else spec), as_json)
            return
        if folder is not None:
            spec["code"] = _send(client, folder, spec)
        lineage = bundle.lineage(folder or file.parent)
        job = client.submit(spec, idempotency_key=key or uuid.uuid4().hex, lineage=lineage)
        _tell(job, as_json)
        if following:
            follow(client, job.id)


def _folder(file: Path, spec: dict[str, Any]) -> Path | None:
    named = spec.get("code") or ""
    if not isinstance(named, str) or not named or named.startswith("man-"):
        return None
    folder = file.parent / named
    if not folder.is_dir():
        raise Failure(
            f"The code folder {folder} is not there; `code` in {file} names it, relative to the file."
        )
    return folder


def _send(client: Client, folder: Path, spec: dict[str, Any]) -> str:
    files = bundle.code_files(folder)
    if not files:
        raise Failure(f"The code folder {folder} has no files, or git ignores all of them.")
    size = sum(path.stat().st_size for _, path in files)
    click.echo(f"Sending {len(files)} files of code, {format_bytes(size)}, from {folder}", err=True)
    return client.upload("code", str(spec["team"]), str(spec.get("name") or folder.name), files)


def _tell_dry_run(told: DryRun, as_json: bool) -> None:
    if as_json:
        output.dump(told)
        return
    if told.outcome == "refused":
        raise Failure(f"It would be refused: {told.why}")
    if told.outcome == "starts":
        click.echo("It would start at once.")
        return
    click.echo(f"It would wait at place {told.position} of the queue: {told.why}")
    click.echo(f"It should start {told.should_start or 'at a time that is not in sight'}.")
    click.echo("\n  ".join(["Each alone would start it now:", *told.changes]) if told.changes else _NO_CHANGE)


def _tell(job: Job, as_json: bool) -> None:
    if as_json:
        output.dump(job)
        return
    click.echo(job.id)
    click.echo(job.url)
    if job.waiting:
        click.echo(f"It waits: {job.waiting.get('sentence', '')}", err=True)
