"""`trainmaster runs list`, `show`, `tag`, `archive`, `delete` and `restore`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from urllib.parse import quote

import click

from platform_core.units import format_duration_ms
from trainmaster.answers import RunInfo
from trainmaster.cli import output
from trainmaster.cli.session import connect
from trainmaster.client import Client

PAGE = 200
BULK = 500  # runs of one request
MOST_COLUMNS = 4


@click.group()
def runs() -> None:
    """List, show, tag, archive, delete and restore runs.

    A filter is such as: metrics.loss < 0.5 and params.lr = 0.001 and tags.stage = "prod" and state = "running"
    """


def found(client: Client, limit: int | None = None, **query: str) -> Iterator[RunInfo]:
    """Page by page."""
    given = {name: value for name, value in query.items() if value}

    def pages() -> Iterator[RunInfo]:
        cursor = ""
        while True:
            page = given | {"limit": str(min(limit or PAGE, PAGE))} | ({"cursor": cursor} if cursor else {})
            body = client.call("GET", "runs", params=page)
            yield from map(RunInfo.of, body["results"])
            cursor = body["next"] or ""
            if not cursor:
                return

    return islice(pages(), limit)


@runs.command("list")
@click.option("--filter", "filter_", default="", help="Such as: metrics.loss < 0.5 and tags.stage = 'prod'.")
@click.option(
    "--order", default="", help="Such as: metrics.loss ASC, start_time DESC. Newest first without it."
)
@click.option("--team", default="", help="Only of this team.")
@click.option(
    "--view",
    default="active",
    show_default=True,
    type=click.Choice(["active", "archived", "deleted", "all"]),
    help="Which runs to look at.",
)
@click.option(
    "--metric", "metrics", multiple=True, help="Metric to show; may be repeated. Without it the first few."
)
@click.option(
    "-n", "--limit", default=20, show_default=True, type=click.IntRange(1, 100_000), help="Runs at most."
)
@output.options
def list_(
    filter_: str, order: str, team: str, view: str, metrics: Sequence[str], limit: int, as_json: bool
) -> None:
    """List runs that match a filter."""
    with connect() as client:
        rows = list(found(client, limit, filter=filter_, order=order, team=team, view=view))
    if as_json:
        output.dump(rows)
        return
    keys = metrics or sorted({key for row in rows for key in row.metrics})[:MOST_COLUMNS]
    output.table(
        ("ID", "NAME", "EXPERIMENT", "STATE", "OWNER", *keys, "CREATED"),
        [
            (
                row.id, row.name, row.experiment, row.state, row.owner,
                *(row.metrics.get(key) for key in keys), f"{output.age(row.created_ms)} ago",
            )
            for row in rows
        ],
        empty="No runs match.",
    )  # fmt: skip


@runs.command()
@click.argument("run")
@output.options
def show(run: str, as_json: bool) -> None:
    """Show RUN: its state, parameters, tags and the last value of each metric."""
    with connect() as client:
        row = RunInfo.of(client.call("GET", f"runs/{quote(run, safe='')}"))
    if as_json:
        output.dump(row)
        return
    lasted = row.ended_ms - row.started_ms if row.ended_ms and row.started_ms else None
    output.facts(
        [
            ("id", row.id), ("name", row.name), ("experiment", f"{row.team}/{row.experiment}"),
            ("state", row.state), ("owner", row.owner), ("group", row.group), ("parent", row.parent),
            ("job", row.job), ("duration", None if lasted is None else format_duration_ms(lasted)),
            ("archived", bool(row.archived_ms)),
        ]
    )  # fmt: skip
    for title, values in (("parameters", row.parameters), ("tags", row.tags), ("metrics", row.metrics)):
        if values:
            click.echo(f"\n{title}")
            output.facts([(f"  {name}", value) for name, value in sorted(values.items())])


def _chosen(command: Callable[..., None]) -> Callable[..., None]:
    """Runs by id or by filter."""
    command = click.option("--team", default="", help="With --filter: only of this team.")(command)
    command = click.option("--filter", "filter_", default="", help="All runs that match, instead of ids.")(
        command
    )
    return click.argument("runs", metavar="RUN...", nargs=-1)(command)


def _ids(client: Client, runs: Sequence[str], filter_: str, team: str, view: str) -> list[str]:
    if bool(runs) == bool(filter_):
        raise click.UsageError("Give ids of runs, or --filter.")
    return list(runs) or [row.id for row in found(client, filter=filter_, team=team, view=view)]


def _change(client: Client, ids: Sequence[str], action: str, **fields: object) -> int:
    changed = 0
    for begin in range(0, len(ids), BULK):
        body = {"ids": list(ids[begin : begin + BULK]), "action": action, **fields}
        changed += client.call("POST", "runs/bulk", json=body)["changed"]
    return changed


@runs.command()
@_chosen
@click.option("--set", "tags", metavar="NAME=VALUE", multiple=True, required=True, help="May be repeated.")
def tag(runs: Sequence[str], filter_: str, team: str, tags: Sequence[str]) -> None:
    """Add tags to runs; those of the same name are replaced."""
    pairs = [tag.partition("=") for tag in tags]
    if any(not name or not equals for name, equals, _ in pairs):
        raise click.UsageError("--set takes NAME=VALUE, such as --set stage=prod.")
    with connect() as client:
        ids = _ids(client, runs, filter_, team, "active")
        click.echo(f"{_change(client, ids, 'tag', tags={name: value for name, _, value in pairs})} changed.")


@runs.command()
@_chosen
def archive(runs: Sequence[str], filter_: str, team: str) -> None:
    """Hide runs from lists. Their pages and curves stay."""
    with connect() as client:
        click.echo(f"{_change(client, _ids(client, runs, filter_, team, 'active'), 'archive')} archived.")


@runs.command()
@_chosen
@click.option("--yes", is_flag=True, help="Do not ask.")
def delete(runs: Sequence[str], filter_: str, team: str, yes: bool) -> None:
    """Delete runs with all below them. They can be restored until retention removes them."""
    with connect() as client:
        ids = _ids(client, runs, filter_, team, "active")
        if ids and not yes:
            click.confirm(f"Delete {len(ids)} runs?", abort=True)
        click.echo(f"{_change(client, ids, 'delete')} deleted.")


@runs.command()
@_chosen
@click.option("--archived", is_flag=True, help="With --filter: look among archived runs, not deleted ones.")
def restore(runs: Sequence[str], filter_: str, team: str, archived: bool) -> None:
    """Restore deleted runs, or take runs out of the archive."""
    with connect() as client:
        ids = _ids(client, runs, filter_, team, "archived" if archived else "deleted")
        click.echo(f"{_change(client, ids, 'restore')} restored.")
