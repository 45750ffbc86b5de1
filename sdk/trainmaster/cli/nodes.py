"""`trainmaster nodes`."""

from __future__ import annotations

import re

import click

from platform_core.units import HOUR_MS, MINUTE_MS, format_duration_ms
from trainmaster.cli import output, references
from trainmaster.cli.session import connect

_UNITS = {"m": MINUTE_MS, "h": HOUR_MS, "d": 24 * HOUR_MS}


class Duration(click.ParamType):  # type: ignore[type-arg]  # click 8.1 has no argument
    """`90m`, `2h` or `1d`, as milliseconds."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"([0-9]{1,6})([mhd])", str(value).strip())
        if match is None or not int(match[1]):
            self.fail(f"{value!r} is not a duration; write 90m, 2h or 1d", param, ctx)
        return int(match[1]) * _UNITS[match[2]]


@click.group(invoke_without_command=True)
@click.pass_context
@output.options
def nodes(ctx: click.Context, as_json: bool) -> None:
    """List nodes; `nodes drain` and `nodes resume` operate them.

    Without a command it lists the nodes of the cluster, those that need attention first.
    """
    if ctx.invoked_subcommand is not None:
        return
    with connect() as client:
        rows = client.nodes()
    if as_json:
        output.dump(rows)
        return
    output.table(
        ("HOSTNAME", "ID", "RACK", "STATE", "SLOTS", "IN USE", "TYPE", "REASON"),
        [
            (row.hostname, row.id, row.rack, row.state, row.slots, row.slots_in_use, row.gpu_type, row.reason)
            for row in rows
        ],
        empty="No nodes have joined yet. On a node: trainmaster agent --server … --token …",
    )


@nodes.command()
@click.argument("node", type=references.NODE)
@click.option(
    "--for", "lasts_ms", metavar="DURATION", type=Duration(),
    help="Book maintenance from now for this long, 90m, 2h or 1d: preemptible jobs save and leave, and the node takes "
    "jobs again afterwards. Without it the node stays drained until `nodes resume`.",
)  # fmt: skip
@click.option("--reason", default="", help="Shown on the pages and in the audit log.")
@output.options
def drain(node: str, lasts_ms: int | None, reason: str, as_json: bool) -> None:
    """Drain NODE (id or hostname): it takes no new jobs. For platform admins.

    Running jobs may finish.
    """
    with connect() as client:
        drained = client.drain_node(node, reason=reason, seconds=lasts_ms // 1000 if lasts_ms else None)
    if as_json:
        output.dump(drained)
    elif lasts_ms:
        click.echo(f"{drained.hostname} is under maintenance for {format_duration_ms(lasts_ms)}.")
    else:
        click.echo(f"{drained.hostname} is {drained.state}{f': {drained.reason}' if drained.reason else ''}.")


@nodes.command()
@click.argument("node", type=references.NODE)
@output.options
def resume(node: str, as_json: bool) -> None:
    """Let NODE (id or hostname) take jobs again. For platform admins.

    Maintenance of it that has begun ends.
    """
    with connect() as client:
        resumed = client.resume_node(node)
    if as_json:
        output.dump(resumed)
    else:
        click.echo(f"{resumed.hostname} is {resumed.state}.")
