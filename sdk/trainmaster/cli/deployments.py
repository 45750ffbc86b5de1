"""`trainmaster deploy`, `preheat`, `pin`, `retry` and `deployments`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from platform_core.distribution.planning.strategies import AUTO, NAMES
from platform_core.units import format_bytes, format_duration_ms
from trainmaster.answers import Deployment, Plan
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.progress import watch, watch_all
from trainmaster.cli.rollouts import rollout_options
from trainmaster.cli.session import connect
from trainmaster.client import Client

_NODES = click.option(
    "--nodes", default="", help="Ids or hostnames of nodes, separated by commas; all ready nodes by default."
)
_SOURCE = click.option(
    "--source-url", default="", help="Another store folder with the same files, s3://… or file://…"
)
_STRATEGY = click.option(
    "--strategy",
    type=click.Choice([AUTO, *NAMES]),
    help="How the files travel between nodes. auto: mesh, unless another is clearly faster.",
)
_PIN = click.option("--pin", is_flag=True, help="Never evict it from a node.")
_PRIORITY = click.option(
    "--priority",
    type=click.IntRange(1, 100),
    help="Weight among deployments that share a node's link; 10 by default.",
)
_CAP = click.option(
    "--rate-cap-mib",
    default=0,
    type=click.IntRange(0),
    help="Cap in MiB per second in, and out, at each node; 0: no cap.",
)
_WATCH = click.option(
    "--watch",
    "watching",
    is_flag=True,
    help="Stay until it is complete and, with a rollout, active or held; exit code 1 if it fails.",
)


@click.command()
@click.argument("model")
@click.argument("version", type=click.IntRange(1))
@_NODES
@_SOURCE
@_STRATEGY
@_PIN
@_PRIORITY
@_CAP
@rollout_options
@click.option("--plan", "planning", is_flag=True, help="Only compare the predicted time of each strategy.")
@_WATCH
@output.options
def deploy(
    model: str, version: int, nodes: str, source_url: str, strategy: str | None, pin: bool, priority: int | None,
    rate_cap_mib: int, planning: bool, watching: bool, as_json: bool, rollout: Mapping[str, Any] | None,
) -> None:  # fmt: skip
    """Deploy VERSION of MODEL to nodes, and print the id of the deployment.

    MODEL is TEAM/NAME, or NAME if you are in one team only. Without an option of a rollout, such as --activate, the
    nodes only receive the files.
    """
    with connect() as client:
        name, targets = _full_name(client, model), _targets(nodes)
        if planning:
            cap = rate_cap_mib << 20
            plan = client.plan(name, version, nodes=targets, strategy=strategy or AUTO, rate_cap=cap)
            _show_plan(plan, as_json)
            return
        started = client.deploy(
            name, version, nodes=targets, source_url=source_url, strategy=strategy or "", pin=pin,
            rollout=rollout, priority=priority or 0, rate_cap=rate_cap_mib << 20,
        )  # fmt: skip
        _started(client, started, watching, as_json)


@click.command()
@click.argument("model")
@click.argument("version", type=click.IntRange(1))
@_NODES
@_SOURCE
@_STRATEGY
@_PIN
@_WATCH
@output.options
def preheat(
    model: str,
    version: int,
    nodes: str,
    source_url: str,
    strategy: str | None,
    pin: bool,
    watching: bool,
    as_json: bool,
) -> None:
    """Send VERSION of MODEL to nodes ahead of a deployment.

    The nodes fetch and verify it, and never activate it. It yields to other deployments and is evicted first when a
    node needs disk space, unless it is pinned. MODEL is TEAM/NAME, or NAME if you are in one team only.
    """
    with connect() as client:
        started = client.deploy(
            _full_name(client, model), version, nodes=_targets(nodes), source_url=source_url, strategy=strategy or "",
            pin=pin, preheat=True,
        )  # fmt: skip
        _started(client, started, watching, as_json)


@click.command()
@click.argument("deployment")
@click.option("--off", is_flag=True, help="Unpin it: nodes may evict it again.")
@output.options
def pin(deployment: str, off: bool, as_json: bool) -> None:
    """Pin the files of a deployment: no node evicts them."""
    with connect() as client:
        changed = client.pin_deployment(deployment, not off)
    if as_json:
        output.dump(changed)
    else:
        click.echo(f"{changed.id} is {'pinned' if changed.pinned else 'not pinned any more'}")


@click.command()
@click.argument("deployment")
@_WATCH
@output.options
def retry(deployment: str, watching: bool, as_json: bool) -> None:
    """Retry a deployment on the nodes that failed or evicted it.

    Verified files are kept. A failed rollout continues as well.
    """
    with connect() as client:
        changed = client.retry_deployment(deployment)
        if not as_json:
            click.echo(f"{changed.id} is {changed.status}")
            click.echo("The nodes fetch it again; verified files are kept.", err=True)
        if watching:
            changed = watch(client, changed)
    if as_json:
        output.dump(changed)
    if watching and changed.trouble:
        raise Failure(changed.trouble)


@click.command()
@click.argument("deployment", nargs=-1)
@click.option(
    "--watch",
    "watching",
    is_flag=True,
    help="Stay until all in progress are settled, and show the progress of each.",
)
@output.options
def deployments(deployment: Sequence[str], watching: bool, as_json: bool) -> None:
    """List deployments, newest first; with ids only these."""
    with connect() as client:
        rows = [client.deployment(name) for name in deployment] or client.deployments()
        if watching:
            rows = watch_all(client, [row for row in rows if deployment or not row.is_settled])
    if watching and (troubles := [row.trouble for row in rows if row.trouble]):
        raise Failure("\n".join(troubles))
    if as_json:
        output.dump(rows)
        return
    output.table(
        ("ID", "MODEL", "VERSION", "STATUS", "PROGRESS", "COMPLETE", "FAILED", "STARTED"),
        [
            (
                row.id, row.model, row.version, status_of(row), f"{row.progress:.0%}",
                f"{row.workers_complete}/{row.workers}", row.workers_failed,
                f"{output.age(row.created_ms)} ago" if row.created_ms else None,
            )
            for row in rows
        ],
        empty="No deployment is in progress."
        if watching
        else "No deployments yet. Start one: trainmaster deploy MODEL VERSION",
    )  # fmt: skip


def status_of(deployment: Deployment) -> str:
    marks = [
        mark
        for mark, there in (
            ("preheated", deployment.preheat),
            ("pinned", deployment.pinned),
            (f"evicted from {deployment.workers_evicted}", deployment.workers_evicted),
            (_rollout(deployment), deployment.rollout),
        )
        if there
    ]
    return f"{deployment.status} ({', '.join(marks)})" if marks else deployment.status


def show(deployment: Deployment) -> None:
    """One deployment with its rollout."""
    rollout = deployment.rollout or {}
    active, failed = rollout.get("nodes_active", 0), rollout.get("nodes_failed", 0)
    output.facts(
        [
            ("deployment", deployment.id),
            ("model", f"{deployment.model} version {deployment.version}"),
            ("status", status_of(deployment)),
            ("strategy", deployment.strategy),
            ("progress", f"{deployment.progress:.0%}"),
            ("workers", f"{deployment.workers_complete} of {deployment.workers} complete"),
            ("failed", deployment.workers_failed or None),
            ("reason", deployment.reason),
            ("active on", f"{active} of {rollout.get('nodes', 0)} nodes" if rollout else None),
            ("hook failed", f"on {failed} nodes" if failed else None),
            ("canaries", ", ".join(rollout.get("canaries", ()))),
            *(("check", _check(check)) for check in rollout.get("checks", ())),
        ]
    )


def _check(check: Mapping[str, Any]) -> str:
    """The newest health check of one canary, with the last line of its output if it failed."""
    code = check.get("exit_code")
    if code == 0:
        return f"{check['node']} passed"
    why = "did not answer in time" if code is None else f"failed with exit code {code}"
    line = str(check.get("output", "")).strip().rpartition("\n")[2]
    return f"{check['node']} {why}{f': {line}' if line else ''}"


def _rollout(deployment: Deployment) -> str:
    rollout = deployment.rollout or {}
    if later := rollout.get("replaced_by"):
        return f"replaced by version {later}"
    why = f": {rollout['reason']}" if rollout.get("reason") else ""
    return f"rollout {rollout.get('state', '')}".replace("_", " ") + why


def _full_name(client: Client, model: str) -> str:
    return model if "/" in model else f"{client.only_team('')}/{model}"


def _targets(nodes: str) -> list[str]:
    return [name.strip() for name in nodes.split(",") if name.strip()]


def _started(client: Client, started: Deployment, watching: bool, as_json: bool) -> None:
    if not as_json:
        click.echo(started.id)
        _show_estimate(started)
    if watching:
        started = watch(client, started)
    if as_json:
        output.dump(started)
    if watching and started.trouble:
        raise Failure(started.trouble)
    if watching and (started.rollout or {}).get("awaits_promotion"):
        click.echo(
            f"The canaries run it. Continue with `trainmaster promote {started.id}`, or undo it with `rollback`.",
            err=True,
        )


def _show_plan(plan: Plan, as_json: bool) -> None:
    if as_json:
        output.dump(plan)
        return
    output.table(
        ("STRATEGY", "TIME", "SLOWDOWN", "STORE", "NODE", "RACKS", "UPLINK", ""),
        [
            (
                row["strategy"], _duration(row["time_seconds"]), f"{row['ratio']:.2f} x", row["store_copies"],
                row["most_sent_copies"], row["cross_rack_copies"], row["most_uplink_copies"],
                "<- would be used" if row["strategy"] == plan.strategy else "",
            )
            for row in plan.strategies
        ],
        empty="There is nothing to compare.",
    )  # fmt: skip
    size, rate = format_bytes(plan.bytes), format_bytes(plan.rate)
    capped = f", less at {plan.nodes_capped} with caps of their own" if plan.nodes_capped else ""
    click.echo(
        f"{size} to {plan.workers} nodes with {rate}/s on each link{capped}: the theoretical minimum is "
        f"{_duration(plan.bound_seconds)}{_interval(plan)}. Nothing was sent.",
        err=True,
    )
    click.echo(_COLUMNS, err=True)
    if plan.short_of_room:
        nodes = ", ".join(f"{node['node']} {format_bytes(node['free'])}" for node in plan.short_of_room[:3])
        more = ", …" if len(plan.short_of_room) > 3 else ""
        click.echo(
            f"{len(plan.short_of_room)} nodes have less than {size} free: {nodes}{more}",
            err=True,
        )


_COLUMNS = (
    "SLOWDOWN is against the theoretical minimum. Copies: read from the STORE, sent by the busiest NODE, between "
    "RACKS, over the busiest rack's UPLINK one way."
)


def _interval(plan: Plan) -> str:
    if plan.low_seconds is None or plan.high_seconds is None:
        return ""
    by = f"measured on {plan.measured_on} deployments" if plan.measured_on else "by the configured link"
    return f"; {plan.strategy} takes {_duration(plan.low_seconds)} to {_duration(plan.high_seconds)}, {by}"


def _duration(seconds: float) -> str:
    return format_duration_ms(int(seconds * 1000))


def _show_estimate(deployment: Deployment) -> None:
    seconds = deployment.estimated_time_seconds
    if seconds:
        others = ", ".join(
            f"{row['strategy']} {_duration(row['time_seconds'])}"
            for row in deployment.strategies
            if row["strategy"] != deployment.strategy
        )
        by = f" by {deployment.strategy}{f' ({others})' if others else ''}" if deployment.strategy else ""
        low, high = deployment.estimated_low_seconds, deployment.estimated_high_seconds
        known = low is not None and high is not None
        between = (
            f", {_duration(low or 0)} to {_duration(high or 0)}, {deployment.estimate_basis}" if known else ""
        )
        click.echo(f"It takes about {_duration(seconds)}{by}{between}.", err=True)
