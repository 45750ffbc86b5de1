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
from trainmaster.cli.session import connect, team_of
from trainmaster.client import Client

_NODES = click.option(
    "--nodes", default="", help="Their ids or hostnames, with commas between; else every ready one."
)
_SOURCE = click.option("--source-url", default="", help="Another place where the same bytes lie.")
_STRATEGY = click.option(
    "--strategy",
    type=click.Choice([AUTO, *NAMES]),
    help="How it goes from node to node; auto: the mesh, unless another is clearly quicker.",
)
_PIN = click.option("--pin", is_flag=True, help="No node gives it up for room.")
_PRIORITY = click.option(
    "--priority", type=click.IntRange(1, 100), help="Weight where deployments share a node's link; 10."
)
_CAP = click.option(
    "--rate-cap-mib",
    default=0,
    type=click.IntRange(0),
    help="MiB per second in, and out, at each node; 0: no cap.",
)
_WATCH = click.option(
    "--watch",
    "watching",
    is_flag=True,
    help="Stay until it is complete and, where it is made active, active or held; exit code 1 if it fails.",
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
@click.option("--plan", "planning", is_flag=True, help="Only compare what each strategy would take.")
@_WATCH
@output.as_json
def deploy(
    model: str, version: int, nodes: str, source_url: str, strategy: str | None, pin: bool, priority: int | None,
    rate_cap_mib: int, planning: bool, watching: bool, as_json: bool, rollout: Mapping[str, Any] | None,
) -> None:  # fmt: skip
    """Bring a version of a model to nodes.

    MODEL is TEAM/NAME, or NAME where you are in one team only. The deployment's id is printed.
    """
    with connect() as client:
        named, targets = _named(client, model), _targets(nodes)
        if planning:
            cap = rate_cap_mib << 20
            plan = client.plan(named, version, nodes=targets, strategy=strategy or AUTO, rate_cap=cap)
            _tell_plan(plan, as_json)
            return
        made = client.deploy(
            named, version, nodes=targets, source_url=source_url, strategy=strategy or "", pin=pin,
            rollout=rollout, priority=priority or 0, rate_cap=rate_cap_mib << 20,
        )  # fmt: skip
        _begun(client, made, watching, as_json)


@click.command()
@click.argument("model")
@click.argument("version", type=click.IntRange(1))
@_NODES
@_SOURCE
@_STRATEGY
@_PIN
@_WATCH
@output.as_json
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
    """Bring a version of a model to nodes before anybody needs it.

    It is fetched and verified, never activated; it gives way to other deployments, and is the first to go when a node
    needs room, unless it is pinned. MODEL is TEAM/NAME, or NAME where you are in one team only.
    """
    with connect() as client:
        made = client.deploy(
            _named(client, model), version, nodes=_targets(nodes), source_url=source_url, strategy=strategy or "",
            pin=pin, preheat=True,
        )  # fmt: skip
        _begun(client, made, watching, as_json)


@click.command()
@click.argument("deployment")
@click.option("--off", is_flag=True, help="Its nodes may give it up again.")
@output.as_json
def pin(deployment: str, off: bool, as_json: bool) -> None:
    """Pin what a deployment brought: none of its nodes gives it up for room."""
    with connect() as client:
        changed = client.pin_deployment(deployment, not off)
    if as_json:
        output.dump(changed)
    else:
        click.echo(f"{changed.id} is {'pinned' if changed.pinned else 'not pinned any more'}")


@click.command()
@click.argument("deployment")
@_WATCH
@output.as_json
def retry(deployment: str, watching: bool, as_json: bool) -> None:
    """Let the nodes of a deployment that failed, or gave it up for room, try again.

    What they have verified they keep. A rollout that failed goes on as well.
    """
    with connect() as client:
        changed = client.retry_deployment(deployment)
        if not as_json:
            click.echo(f"{changed.id} is {changed.status}")
            click.echo("The nodes fetch it again; what they have verified they keep.", err=True)
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
    help="Stay until all that are under way are settled, and show how far each is.",
)
@output.as_json
def deployments(deployment: Sequence[str], watching: bool, as_json: bool) -> None:
    """List deployments, newest first, or those that are named."""
    with connect() as client:
        found = [client.deployment(name) for name in deployment] or client.deployments()
        if watching:
            found = watch_all(client, [one for one in found if deployment or not one.is_settled])
    if watching and (troubles := [one.trouble for one in found if one.trouble]):
        raise Failure("\n".join(troubles))
    if as_json:
        output.dump(found)
        return
    output.table(
        ("ID", "MODEL", "VERSION", "STATUS", "PROGRESS", "COMPLETE", "FAILED", "BEGUN"),
        [
            (
                one.id, one.model, one.version, status_of(one), f"{one.progress:.0%}",
                f"{one.workers_complete}/{one.workers}", one.workers_failed,
                f"{output.age(one.created_ms)} ago" if one.created_ms else None,
            )
            for one in found
        ],
        empty="No deployment is under way."
        if watching
        else "No deployments yet. Begin one: trainmaster deploy MODEL VERSION",
    )  # fmt: skip


def status_of(deployment: Deployment) -> str:
    marks = [
        mark
        for mark, there in (
            ("preheated", deployment.preheat),
            ("pinned", deployment.pinned),
            (f"{deployment.workers_evicted} gave it up", deployment.workers_evicted),
            (_rollout(deployment), deployment.rollout),
        )
        if there
    ]
    return f"{deployment.status} ({', '.join(marks)})" if marks else deployment.status


def tell(deployment: Deployment) -> None:
    """One of them, with whatever is known of its rollout."""
    told = deployment.rollout or {}
    active, failed = told.get("nodes_active", 0), told.get("nodes_failed", 0)
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
            ("runs on", f"{active} of {told.get('nodes', 0)} nodes" if told else None),
            ("not on", f"{failed}: their hook failed" if failed else None),
            ("canaries", ", ".join(told.get("canaries", ()))),
            *(("check", _check(each)) for each in told.get("checks", ())),
        ]
    )


def _check(told: Mapping[str, Any]) -> str:
    """The newest of one canary: the end of what it said, where it failed."""
    code = told.get("exit_code")
    if code == 0:
        return f"{told['node']} passed"
    why = "gave no answer in time" if code is None else f"failed with exit code {code}"
    said = str(told.get("output", "")).strip().rpartition("\n")[2]
    return f"{told['node']} {why}{f': {said}' if said else ''}"


def _rollout(deployment: Deployment) -> str:
    told = deployment.rollout or {}
    if later := told.get("replaced_by"):
        return f"replaced by version {later}"
    why = f": {told['reason']}" if told.get("reason") else ""
    return f"rollout {told.get('state', '')}".replace("_", " ") + why


def _named(client: Client, model: str) -> str:
    return model if "/" in model else f"{team_of(client, '')}/{model}"


def _targets(nodes: str) -> list[str]:
    return [name.strip() for name in nodes.split(",") if name.strip()]


def _begun(client: Client, made: Deployment, watching: bool, as_json: bool) -> None:
    if not as_json:
        click.echo(made.id)
        _tell_estimate(made)
    if watching:
        made = watch(client, made)
    if as_json:
        output.dump(made)
    if watching and made.trouble:
        raise Failure(made.trouble)
    if watching and (made.rollout or {}).get("awaits_promotion"):
        click.echo(f"It is held until somebody says: trainmaster promote {made.id}, or rollback", err=True)


def _tell_plan(plan: Plan, as_json: bool) -> None:
    if as_json:
        output.dump(plan)
        return
    output.table(
        ("STRATEGY", "TIME", "OF THE LEAST", "STORE", "NODE", "RACKS", "UPLINK", ""),
        [
            (
                one["strategy"], _duration(one["time_seconds"]), f"{one['ratio']:.2f} x", one["store_copies"],
                one["most_sent_copies"], one["cross_rack_copies"], one["most_uplink_copies"],
                "<- would be taken" if one["strategy"] == plan.strategy else "",
            )
            for one in plan.strategies
        ],
        empty="There is nothing to compare.",
    )  # fmt: skip
    size, rate = format_bytes(plan.bytes), format_bytes(plan.rate)
    less = f", less at {plan.nodes_capped} of them by their own caps" if plan.nodes_capped else ""
    told = (
        f"{size} to {plan.workers} nodes with {rate}/s on each link{less}: no strategy could take less than"
    )
    click.echo(f"{told} {_duration(plan.bound_seconds)}. Nothing has been moved.", err=True)
    click.echo(_LOADS, err=True)
    if plan.short_of_room:
        named = ", ".join(f"{one['node']} {format_bytes(one['free'])}" for one in plan.short_of_room[:3])
        more = ", …" if len(plan.short_of_room) > 3 else ""
        click.echo(
            f"Less free than {size}, so they make room or fail alone: {len(plan.short_of_room)}: {named}{more}",
            err=True,
        )


_LOADS = "Copies: read from the STORE, sent by the busiest NODE, between RACKS, over the busiest rack's UPLINK one way."


def _duration(seconds: float) -> str:
    return format_duration_ms(int(seconds * 1000))


def _tell_estimate(deployment: Deployment) -> None:
    seconds = deployment.estimated_time_seconds
    if seconds:
        others = ", ".join(
            f"{one['strategy']} {_duration(one['time_seconds'])}"
            for one in deployment.strategies
            if one["strategy"] != deployment.strategy
        )
        by = f" by {deployment.strategy}{f' ({others})' if others else ''}" if deployment.strategy else ""
        click.echo(f"It takes about {_duration(seconds)}{by}.", err=True)
