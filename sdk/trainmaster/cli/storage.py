"""`trainmaster storage`: what teams have in the store, and what nobody needs any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from platform_core.storage.holdings import Split
from platform_core.units import format_bytes, format_micro_dollars, parse_bytes
from trainmaster.cli import output
from trainmaster.cli.session import connect


@click.group()
def storage() -> None:
    """What teams have in the store, and what in it nobody needs any more."""


@storage.command()
@click.option(
    "--by",
    type=click.Choice([split.value for split in Split]),
    help="Show how it divides by that, the largest first.",
)
@click.option("--team", default="", help="With --by: only of this team.")
@output.options
def show(by: str | None, team: str, as_json: bool) -> None:
    """Show what your teams have in the store by kind, and how it grows."""
    if by:
        _show_shares(by, team, as_json)
        return
    if team:
        raise click.UsageError("--team needs --by.")
    with connect() as client:
        body: Any = client.call("GET", "storage")
    if as_json:
        output.dump_json(body["results"])
        return
    rows = [
        (one["team"], part["kind"], format_bytes(part["bytes"]), part["items"], _limit(part["limit"]))
        for one in body["results"]
        for part in one["parts"]
    ]
    output.table(
        ("TEAM", "KIND", "SIZE", "ITEMS", "LIMIT"),
        rows,
        empty="Nothing of your teams has been accounted yet.",
    )
    for one in body["results"]:
        growth = "growth is not known yet" if one["growth"] is None else f"{_signed(one['growth'])} a day"
        left = (
            ""
            if one["days_left"] is None
            else f"; its uploads reach the limit in {one['days_left']:.0f} days"
        )
        price = f", {format_micro_dollars(cost)} a month" if (cost := one["month_micro_dollars"]) else ""
        budget = f" of a budget of {format_micro_dollars(one['budget'])}" if one["budget"] is not None else ""
        click.echo(f"{one['team']}: {format_bytes(one['bytes'])}{price}{budget}, {growth}{left}")


def _show_shares(by: str, team: str, as_json: bool) -> None:
    with connect() as client:
        body: Any = client.call("GET", "storage/shares", params={"by": by, "team": team})
    found = body["results"]
    if as_json:
        output.dump_json(found)
        return
    whole = sum(one["bytes"] for one in found) or 1
    rows = [
        (
            "/".join(filter(None, (one["team"], one["name"] or f"no {by}"))),
            format_bytes(one["bytes"]),
            f"{one['bytes'] / whole:.0%}",
            one["items"],
            format_micro_dollars(cost) if (cost := one["month_micro_dollars"]) else "",
        )
        for one in found
    ]
    titles = (by.upper(), "SIZE", "SHARE", "ITEMS", "A MONTH")
    output.table(titles, rows, empty=f"Nothing of {team or 'your teams'} has been accounted yet.")


def _limit(size: int | None) -> str:
    return "" if size is None else format_bytes(size)


@storage.command()
@output.options
def leftovers(as_json: bool) -> None:
    """List abandoned uploads and files that nothing refers to."""
    with connect() as client:
        body: Any = client.call("GET", "storage/leftovers")
    if as_json:
        output.dump_json(body["results"])
        return
    rows = [
        (one["id"], one["team"], one["name"], format_bytes(one["bytes"]), one["kind"], _end(one), one["item"])
        for one in body["results"]
    ]
    titles = ("ID", "TEAM", "NAME", "SIZE", "KIND", "DELETED", "ITEM")
    output.table(titles, rows, empty="No abandoned upload and no unused files were found.")


@storage.command()
@output.options
def damages(as_json: bool) -> None:
    """List files that the store does not have as they were registered."""
    with connect() as client:
        body: Any = client.call("GET", "storage/damages")
    if as_json:
        output.dump_json(body["results"])
        return
    rows = [
        (one["name"], one["kind"], one["path"], "mended" if one["mended_ms"] else "damaged", one["why"])
        for one in body["results"]
    ]
    output.table(("OF", "KIND", "FILE", "STATE", "WHY"), rows, empty="No damaged file was found.")


@storage.command()
@click.argument("leftover", type=int)
@click.option("--release", is_flag=True, help="Do not keep it any more.")
def keep(leftover: int, release: bool) -> None:
    """Keep LEFTOVER, a number of the list, from deletion."""
    with connect() as client:
        body: Any = client.call("PATCH", f"storage/leftovers/{leftover}", json={"kept": not release})
    click.echo(f"{body['name']} is not kept any more." if release else f"{body['name']} is kept.")


@storage.command()
@click.argument("team")
@click.argument("kind", type=click.Choice(["code", "dataset", "model", "checkpoint", "run files"]))
@click.argument("size")
def limit(team: str, kind: str, size: str) -> None:
    """Set how much of KIND the TEAM may keep, such as 2TiB; none: as the settings say."""
    most = None if size == "none" else _read(parse_bytes, size)
    with connect() as client:
        client.call("PUT", "storage/limits", json={"team": team, "kind": kind, "bytes": most})
    click.echo(f"{team}: {kind} {'without a limit of its own' if most is None else format_bytes(most)}.")


@storage.command()
@click.argument("team")
@click.argument("dollars")
def budget(team: str, dollars: str) -> None:
    """Set what the TEAM means to spend on the store a month, in DOLLARS; none: nothing."""
    amount = None if dollars == "none" else _read(lambda text: round(float(text) * 1e6), dollars)
    with connect() as client:
        client.call("PUT", "storage/budgets", json={"team": team, "month_micro_dollars": amount})
    click.echo(f"{team}: {'no budget' if amount is None else format_micro_dollars(amount) + ' a month'}.")


@storage.command()
@output.options
def retention(as_json: bool) -> None:
    """List what is deleted for its age, and how much the next turns would delete."""
    with connect() as client:
        body: Any = client.call("GET", "storage/retention")
    if as_json:
        output.dump_json(body["results"])
        return
    rows = [
        (one["what"], f"{one['days']} days" if one["days"] else "kept", one["due"], one["setting"])
        for one in body["results"]
    ]
    output.table(("WHAT", "DELETED AFTER", "DUE", "SETTING"), rows, empty="Nothing is deleted for its age.")


def _read(read: Callable[[str], int], text: str) -> int:
    try:
        return read(text)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(str(error)) from error


def _signed(size: float) -> str:
    return f"{'-' if size < 0 else '+'}{format_bytes(round(abs(size)))}"


def _end(one: dict[str, Any]) -> str:
    if one["kept_by"]:
        return f"kept by {one['kept_by']}"
    return output.until(one["goes_ms"]) if one["goes_ms"] else "never"
