"""`trainmaster lineage`: what an item comes from and what came of it, and recalls of bad ones."""

from __future__ import annotations

from typing import Any

import click

from platform_core import ids
from platform_core.lineage.graph import Kind
from platform_core.units import plural
from trainmaster.cli import output
from trainmaster.cli.session import connect

ITEM_HELP = "ITEM is KIND:ID, such as dataset:ds-…, or an id alone where it tells the kind."
_KINDS = {
    "ds": Kind.DATASET, ids.MANIFEST: Kind.CODE, ids.JOB: Kind.RUN, ids.CHECKPOINT: Kind.CHECKPOINT,
    ids.MODEL_VERSION: Kind.MODEL, ids.DEPLOYMENT: Kind.DEPLOYMENT,
}  # fmt: skip


@click.group()
def lineage() -> None:
    """What an item comes from and what came of it, and recalls of bad ones."""


@lineage.command(help=f"Show what ITEM comes from and what came of it.\n\n    {ITEM_HELP}")
@click.argument("item")
@output.options
def show(item: str, as_json: bool) -> None:
    kind, item_id = _item(item)
    with connect() as client:
        body: Any = client.call("GET", f"lineage/{kind}/{item_id}")
    if as_json:
        output.dump_json(body)
        return
    rows = [
        (direction, one["depth"], one["kind"], one["label"], one["team"], _state(one), one["id"])
        for direction in ("upstream", "downstream")
        for one in body[direction]
    ]
    click.echo(f"{body['item']['kind']} {body['item']['label']} of {body['item']['team']}")
    if body["item"]["recalled"]:
        click.echo(f"Recalled: {body['item']['recalled']}")
    output.table(
        ("WHERE", "STEPS", "KIND", "ITEM", "TEAM", "STATE", "ID"), rows,
        empty="Nothing is known that it came from, and nothing was made from it.",
    )  # fmt: skip
    if body["hidden"]:
        click.echo(f"{body['hidden']} more of other teams.", err=True)


@lineage.command(help=f"Recall ITEM and all that came of it.\n\n    {ITEM_HELP}")
@click.argument("item")
@click.option("--reason", default="", help="What is wrong with it.")
@click.option("--shard", default="", help="Path of the bad file: all versions of the dataset that have it.")
@click.option("--keep-jobs", is_flag=True, help="Do not cancel jobs that are made from it.")
@click.option("--keep-services", is_flag=True, help="Do not take back deployments and endpoints.")
@click.option("--dry-run", is_flag=True, help="Only list what it would reach.")
@output.options
def recall(
    item: str, reason: str, shard: str, keep_jobs: bool, keep_services: bool, dry_run: bool, as_json: bool
) -> None:
    kind, item_id = _item(item)
    if not dry_run and not reason.strip():
        raise click.UsageError("Say what is wrong with it: --reason '…'.")
    with connect() as client:
        if dry_run:
            body: Any = client.call("POST", "recalls/preview", json={"kind": kind, "item": item_id})
        else:
            wish: dict[str, Any] = {
                "reason": reason,
                "stop_jobs": not keep_jobs,
                "withdraw": not keep_services,
            }
            wish |= {"shard": shard} if shard else {}
            body = client.call("POST", "recalls", json={"kind": kind, "item": item_id, **wish})
    if as_json:
        output.dump_json(body)
    elif dry_run:
        rows = [(one["kind"], one["label"], one["team"], one["owner"], _state(one)) for one in body["items"]]
        output.table(("KIND", "ITEM", "TEAM", "OWNER", "STATE"), rows, empty="It would reach nothing.")
    else:
        marked = plural(body["marked"], "item")
        click.echo(f"Recalled {body['kind']} {body['label']} ({body['id']}): {marked} marked.")
        for done in body["outcome"]:
            click.echo(f"  {done}")


@lineage.command()
@output.options
def recalls(as_json: bool) -> None:
    """List recalls of items of your teams."""
    with connect() as client:
        body: Any = client.call("GET", "recalls")
    if as_json:
        output.dump_json(body["results"])
        return
    rows = [
        (
            one["id"], one["kind"], one["label"], one["team"], "lifted" if one["lifted_ms"] else "recalled",
            one["recalled_by"], f"{output.age(one['recalled_ms'])} ago", one["reason"],
        )
        for one in body["results"]
    ]  # fmt: skip
    titles = ("ID", "KIND", "ITEM", "TEAM", "STATE", "BY", "WHEN", "REASON")
    output.table(titles, rows, empty="Nothing is recalled.")


@lineage.command()
@click.argument("recall_id", metavar="RECALL")
def lift(recall_id: str) -> None:
    """Lift RECALL: what it reached may be used again. Nothing that was stopped is started."""
    with connect() as client:
        body: Any = client.call("DELETE", f"recalls/{recall_id}")
    click.echo(f"The recall of {body['kind']} {body['label']} is lifted.")


def _item(text: str) -> tuple[str, str]:
    kind, colon, item_id = text.partition(":")
    if not colon:
        kind, item_id = _KINDS.get(text.partition("-")[0], ""), text
    if kind not in set(Kind) or not item_id:
        raise click.UsageError(
            f"{text!r} does not tell its kind; write KIND:ID, KIND one of {', '.join(Kind)}."
        )
    return str(Kind(kind)), item_id


def _state(one: dict[str, Any]) -> str:
    return "recalled" if one["recalled"] else str(one["state"])
