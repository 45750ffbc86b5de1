"""`trainmaster dataset`: list, push, register in place, look at files and differences, request access."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import click

from platform_core.units import format_bytes
from trainmaster import bundle, snapshots
from trainmaster.answers import Snapshot
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.session import connect
from trainmaster.cli.upload import SHOWN_PATHS, name_left_out, upload


@click.group()
def dataset() -> None:
    """List datasets, and send or register new snapshots of them."""


@dataset.command("list")
@click.option("--team", default="", help="Only of this team.")
@click.option("--name", default="", help="Only of the dataset with this name.")
@click.option("--search", default="", help="Only with this in the name, the description or a tag.")
@output.options
def list_(team: str, name: str, search: str, as_json: bool) -> None:
    """List the snapshots of datasets, newest first.

    A job names a snapshot by its ID as `dataset`, with one of its purposes as `purpose`.
    """
    with connect() as client:
        found = client.datasets(team=team, name=name, search=search)
    if as_json:
        output.dump(found)
        return
    output.table(
        ("DATASET", "VERSION", "ID", "TEAM", "STATE", "PURPOSE", "FILES", "SIZE", "PUSHED", "BY"),
        [
            (
                snapshot.name, snapshot.version, snapshot.id, snapshot.team, snapshot.state, snapshot.purpose,
                snapshot.files, format_bytes(snapshot.bytes), f"{output.age(snapshot.created_ms)} ago",
                snapshot.created_by,
            )
            for snapshot in found
        ],
        empty="No datasets. Send one: trainmaster dataset push FOLDER --name NAME --purpose train",
    )  # fmt: skip


@dataset.command()
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--name", required=True, help="Name of the dataset.")
@click.option("--team", default="", help="Team that owns it; not needed if you are in one team only.")
@click.option(
    "--purpose", required=True, help="What jobs may use it for, separated by commas, such as train,eval."
)
@output.options
def push(folder: Path, name: str, team: str, purpose: str, as_json: bool) -> None:
    """Send FOLDER as the next snapshot of a dataset, and print its id.

    The same content and purpose again give the same snapshot. Files of its newest snapshot are not sent again, and a
    push that broke off goes on where it was. Links that lead out of FOLDER are not followed, and names that no
    file of the platform may have are left out; all of them are named.
    """
    files = bundle.data_files(folder)
    name_left_out(bundle.left_out(folder, files), "files of tools")
    if not files:
        raise Failure(f"{folder} has no files to send.")
    with connect() as client:
        team = client.only_team(team)
        earlier = snapshots.newest_upload(client, team, name)
        manifest = upload(client, "dataset", team, name, files, f" from {folder}", earlier)
        snapshot = client.add_snapshot(name, team=team, manifest=manifest, purpose=purpose)
    if as_json:
        output.dump(snapshot)
        return
    click.echo(snapshot.id)
    if snapshot.version:
        click.echo(f"This is version {snapshot.version} of {name}.", err=True)


@dataset.command()
@click.argument("source_url")
@click.option("--name", required=True, help="Name of the dataset.")
@click.option("--team", default="", help="Team that owns it; not needed if you are in one team only.")
@click.option(
    "--purpose", required=True, help="What jobs may use it for, separated by commas, such as train,eval."
)
@click.option(
    "--project", "projects", multiple=True, help="Project that may use it; every project without it."
)
@click.option(
    "--path", "paths", multiple=True, help="Only this file below the address; a web server needs it."
)
@output.options
def register(
    source_url: str,
    name: str,
    team: str,
    purpose: str,
    projects: tuple[str, ...],
    paths: tuple[str, ...],
    as_json: bool,
) -> None:
    """Register the files at SOURCE_URL where they lie as the next snapshot, and print its id.

    The address begins with s3://, gs://, file:// or https://. The files are listed and hashed in the background;
    `trainmaster dataset show ID` tells how far that is. The same address again shares the files that have not changed.
    """
    with connect() as client:
        team = client.only_team(team)
        snapshot = client.add_snapshot(
            name, team=team, source_url=source_url, purpose=purpose, projects=projects, paths=paths
        )
    if as_json:
        output.dump(snapshot)
        return
    click.echo(snapshot.id)
    click.echo(f"Version {snapshot.version} of {name} is being registered.", err=True)


@dataset.command()
@click.argument("name")
@click.option("--team", default="", help="Team that owns it; not needed if you are in one team only.")
@click.option("--every", type=int, required=True, metavar="MINUTES", help="Between two looks; 0: stop.")
@click.option(
    "--fresh", type=int, metavar="MINUTES", help="Alert when the newest version is older; 0: never."
)
def follow(name: str, team: str, every: int, fresh: int | None) -> None:
    """Look at the source of the dataset NAME every so many minutes; what has come makes its next snapshot."""
    with connect() as client:
        team = client.only_team(team)
        address = f"teams/{quote(team, safe='')}/datasets/{quote(name, safe='')}"
        said = {"follow_minutes": every} | ({} if fresh is None else {"fresh_minutes": fresh})
        client.call("PATCH", address, json=said)
    click.echo(f"{name} is followed every {every} minutes." if every else f"{name} is not followed any more.")


@dataset.command()
@click.argument("snapshot_id")
@click.option("--verify", is_flag=True, help="Compare the source with the snapshot, in the background.")
@click.option("--resume", is_flag=True, help="Go on with a registration that failed.")
@output.options
def show(snapshot_id: str, verify: bool, resume: bool, as_json: bool) -> None:
    """Show a snapshot: its state, what it is approved for, and what has changed in its source."""
    with connect() as client:
        if verify or resume:
            snapshots.act(client, snapshot_id, "check" if verify else "resume")
        snapshot = snapshots.snapshot(client, snapshot_id)
    if as_json:
        output.dump(snapshot)
        return
    projects = ", ".join(snapshot.projects) or "every project"
    output.facts(
        (
            ("Dataset", f"{snapshot.name} version {snapshot.version} of {snapshot.team}"),
            ("State", " ".join(filter(None, (snapshot.state, snapshot.error)))),
            ("Approved for", f"{snapshot.purpose} of {projects}"),
            ("Files", f"{snapshot.files_done if snapshot.source else snapshot.files} of {snapshot.files}"),
            ("Size", format_bytes(snapshot.bytes)),
            ("Source", snapshot.source or "uploaded"),
            ("Verified", _verified(snapshot)),
        )
    )
    for kind in ("added", "changed", "removed"):
        for path in snapshot.check_result.get(kind, ())[:SHOWN_PATHS]:
            click.echo(f"  {kind:<8} {path}")


def _verified(snapshot: Snapshot) -> str:
    if not snapshot.checked_ms:
        return "not since it was registered"
    return f"{output.age(snapshot.checked_ms)} ago: {snapshot.check_result.get('summary', '')}"


@dataset.command()
@click.argument("snapshot_id")
@click.confirmation_option("--yes", prompt="Delete this version for good?", help="Do not ask.")
def delete(snapshot_id: str) -> None:
    """Delete a version that no job reads now; files that nothing else needs go after a time of grace."""
    with connect() as client:
        client.call("DELETE", f"dataset-snapshots/{snapshot_id}")
    click.echo(f"{snapshot_id} is deleted.")


@dataset.command()
@click.argument("snapshot_id")
@output.options
def files(snapshot_id: str, as_json: bool) -> None:
    """List the files of a snapshot."""
    with connect() as client:
        rows = snapshots.files(client, snapshot_id)
    if as_json:
        output.dump_json(rows)
        return
    output.table(
        ("PATH", "SIZE", "SHA-256"),
        [(row["path"], format_bytes(row["bytes"]), row["sha256"]) for row in rows],
        empty="It has no files yet.",
    )


@dataset.command()
@click.argument("snapshot_id")
@click.option(
    "--drop", "dropped", type=int, multiple=True, help="Number of the list that later jobs leave out."
)
@click.option(
    "--release", "released", type=int, multiple=True, help="Number of the list that they read again."
)
@output.options
def unreadable(snapshot_id: str, dropped: tuple[int, ...], released: tuple[int, ...], as_json: bool) -> None:
    """List what jobs could not read of a snapshot, and decide what becomes of it."""
    address = f"dataset-snapshots/{snapshot_id}/unreadable"
    with connect() as client:
        for decision, rows in (("drop", dropped), ("release", released)):
            if rows:
                client.call("PATCH", address, json={"row_ids": list(rows), "decision": decision})
        body: Any = client.call("GET", address)
    if as_json:
        output.dump_json(body["results"])
        return
    rows_shown = [
        (
            one["id"],
            one["shard"] or f"sample {one['sample']} of {one['loader']}",
            one["state"],
            one["job_count"],
            one["reason"],
        )
        for one in body["results"]
    ]
    output.table(
        ("ID", "WHAT", "STATE", "JOBS", "REASON"), rows_shown, empty="Jobs have read all of it so far."
    )


@dataset.command()
@click.argument("before")
@click.argument("after")
@output.options
def diff(before: str, after: str, as_json: bool) -> None:
    """List the files that differ between two snapshots."""
    with connect() as client:
        changes = snapshots.difference(client, before, after)
    if as_json:
        output.dump_json(changes)
        return
    rows = [(kind, path) for kind in ("added", "removed", "changed") for path in changes[kind]]
    output.table(("CHANGE", "PATH"), rows, empty="They have the same files.")
    click.echo(f"{changes['unchanged']} unchanged, {format_bytes(changes['unchanged_bytes'])}", err=True)


@dataset.command()
@click.argument("dataset_name", metavar="TEAM/DATASET")
@click.option("--team", default="", help="Whose jobs would use it; not needed if you are in one team only.")
@click.option("--purpose", required=True, help="What they would use it for, such as train.")
@click.option("--project", default="", help="Only in this project of the team.")
@click.option("--reason", default="", help="For whoever decides.")
@output.options
def request(dataset_name: str, team: str, purpose: str, project: str, reason: str, as_json: bool) -> None:
    """Request a use of TEAM/DATASET that it is not approved for. Leads of a team may."""
    owner, slash, name = dataset_name.partition("/")
    if not slash or not name:
        raise Failure(f"{dataset_name} is not TEAM/DATASET, such as vision/faces.")
    with connect() as client:
        asked = {
            "dataset_team": owner, "dataset": name, "team": client.only_team(team), "purpose": purpose,
            "project": project, "reason": reason,
        }  # fmt: skip
        answer = snapshots.request_access(client, asked)
    if as_json:
        output.dump_json(answer)
        return
    click.echo(f"{answer['id']} is {answer['state']}; the owner of the dataset or a lead of {owner} decides.")
