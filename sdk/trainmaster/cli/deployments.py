"""`trainmaster deploy` and `deployments`."""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from platform_core.units import format_duration_ms
from trainmaster.answers import Deployment
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.session import connect, team_of
from trainmaster.client import Client

PAUSE_SECONDS = 1.0


@click.command()
@click.argument("model")
@click.argument("version", type=click.IntRange(1))
@click.option(
    "--nodes", default="", help="Their ids or hostnames, with commas between; else every ready one."
)
@click.option("--source-url", default="", help="Another place where the same bytes lie.")
@click.option(
    "--watch", "watching", is_flag=True, help="Stay until it is complete; exit code 1 if it is not."
)
@output.as_json
def deploy(model: str, version: int, nodes: str, source_url: str, watching: bool, as_json: bool) -> None:
    """Bring a version of a model to nodes.

    MODEL is TEAM/NAME, or NAME where you are in one team only. The deployment's id is printed.
    """
    targets = [name.strip() for name in nodes.split(",") if name.strip()]
    with connect() as client:
        if "/" not in model:
            model = f"{team_of(client, '')}/{model}"
        made = client.deploy(model, version, nodes=targets, source_url=source_url)
        if not as_json:
            click.echo(made.id)
            _tell_estimate(made)
        if watching:
            made = watch(client, made)
    if as_json:
        output.dump(made)
    if watching and made.status != "complete":
        raise Failure(f"{made.id} is {made.status}{f': {made.reason}' if made.reason else '.'}")


@click.command()
@output.as_json
def deployments(as_json: bool) -> None:
    """List deployments, newest first."""
    with connect() as client:
        found = client.deployments()
    if as_json:
        output.dump(found)
        return
    output.table(
        ("ID", "MODEL", "VERSION", "STATUS", "PROGRESS", "COMPLETE", "FAILED", "BEGUN"),
        [
            (
                one.id, one.model, one.version, one.status, f"{one.progress:.0%}",
                f"{one.workers_complete}/{one.workers}", one.workers_failed,
                f"{output.age(one.created_ms)} ago" if one.created_ms else None,
            )
            for one in found
        ],
        empty="No deployments yet. Begin one: trainmaster deploy MODEL VERSION",
    )  # fmt: skip


def watch(client: Client, deployment: Deployment, pause: Callable[[float], None] = time.sleep) -> Deployment:
    """Tell each change on stderr until it has ended."""
    told = ""
    while True:
        workers = f"{deployment.workers_complete} of {deployment.workers} workers complete"
        line = f"{deployment.status}  {deployment.progress:.0%}  {workers}"
        if line != told:
            click.echo(line, err=True)
            told = line
        if deployment.is_finished:
            return deployment
        pause(PAUSE_SECONDS)
        deployment = client.deployment(deployment.id)


def _tell_estimate(deployment: Deployment) -> None:
    seconds = deployment.estimated_time_seconds
    if seconds:
        click.echo(f"It takes about {format_duration_ms(int(seconds * 1000))}.", err=True)
