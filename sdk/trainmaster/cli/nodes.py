"""`trainmaster nodes`."""

from __future__ import annotations

import re
from typing import Any

import click

from platform_core.units import HOUR_MS, MINUTE_MS, format_duration_ms
from trainmaster.answers import Node
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
    """List nodes; `nodes drain`, `nodes resume` and `nodes return` operate them.

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
            (row.hostname, row.id, row.rack, row.state, row.slots, row.slots_in_use, row.gpu_type, _why(row))
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


@nodes.command()
@click.argument("node", type=references.NODE)
@output.options
def health(node: str, as_json: bool) -> None:
    """List what was found wrong with the devices of NODE (id or hostname), open findings first."""
    with connect() as client:
        body: Any = client.call("GET", f"nodes/{node}/health")
        faults = [] if as_json else _hardware_faults(client.nodes(), node)
    for fault in faults:
        click.echo(fault)
    _show_findings(body["results"], as_json, "Nothing else" if faults else "Nothing")


def _hardware_faults(nodes: list[Node], node: str) -> list[str]:
    return [fault for each in nodes if node in (each.id, each.hostname) for fault in each.hardware_faults]


@nodes.command(name="return")
@click.argument("node", type=references.NODE)
@click.option("--slot", type=click.IntRange(0), help="Only this slot.")
@output.options
def return_(node: str, slot: int | None, as_json: bool) -> None:
    """Return NODE (id or hostname) to service after a device fault. For platform admins.

    Only new or worse faults take it out of service again.
    """
    with connect() as client:
        body: Any = client.call("POST", f"nodes/{node}/return", json={} if slot is None else {"slot": slot})
    if as_json:
        output.dump_json(body["results"])
    else:
        click.echo(f"{node if slot is None else f'Slot {slot} of {node}'} is in service.")


def _why(node: Node) -> str:
    """Why it is not in service, whole or in part."""
    slots = (f"slot {slot}: {why}" for slot, why in node.slots_out_of_service.items())
    sentences = (node.reason, node.out_of_service, *slots, *node.hardware_faults)
    return "; ".join(dict.fromkeys(sentence.rstrip(".") for sentence in sentences if sentence))


def _show_findings(findings: list[dict[str, Any]], as_json: bool, nothing: str) -> None:
    if as_json:
        output.dump_json(findings)
        return
    output.table(
        ("SLOT", "STAGE", "CONSEQUENCE", "BEGAN", "FINDING"),
        [
            (
                "node" if finding["slot"] is None else finding["slot"],
                "over" if finding["closed_ms"] else finding["stage"],
                finding["consequence"],
                f"{output.age(finding['began_ms'])} ago",
                finding["sentence"],
            )
            for finding in findings
        ],
        empty=f"{nothing} was found wrong with its devices.",
    )
