"""`trainmaster promote` and `rollback`, and what `deploy` is told about switching nodes to a version."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from trainmaster.answers import Deployment
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.progress import watch
from trainmaster.cli.session import connect, team_of
from trainmaster.client import Client

_OPTIONS = (
    click.option("--activate", is_flag=True, help="Switch each node to the version as soon as it holds it."),
    click.option(
        "--canary", default="", metavar="N|N%",
        help="So many nodes switch first. This and what follows mean --activate too.",
    ),
    click.option(
        "--hold", metavar="SECONDS", type=click.IntRange(0),
        help="Watch the canaries for so long, then go on; else until somebody promotes.",
    ),
    click.option("--health-check", default="", metavar="COMMAND", help="The canaries must pass it."),
    click.option(
        "--check-every", metavar="SECONDS", type=click.IntRange(0),
        help="Repeat it so often while they are held; 30 if not said, 0 at both ends of the hold alone.",
    ),
    click.option(
        "--roll-back-after", metavar="N", type=click.IntRange(1),
        help="So many failures in a row take every node back at once; else the first one stops the rollout.",
    ),
    click.option("--hook", default="", metavar="COMMAND", help="Runs on a node after its switch."),
    click.option("--wait-for-all", is_flag=True, help="Nobody switches before every node holds the version."),
)  # fmt: skip


def rollout_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options of `deploy`, which gets them as one mapping `rollout`; None when the bytes alone are wanted."""

    @functools.wraps(command)
    def told(
        activate: bool,
        canary: str,
        hold: int | None,
        health_check: str,
        check_every: int | None,
        roll_back_after: int | None,
        hook: str,
        wait_for_all: bool,
        **more: Any,
    ) -> None:
        asked: dict[str, Any] = {
            "canary": canary,
            "health_check": health_check,
            "hook": hook,
            "wait_for_all": wait_for_all,
        }
        wish = {name: value for name, value in asked.items() if value}
        numbers = {
            "hold_seconds": hold,
            "check_every_seconds": check_every,
            "roll_back_after": roll_back_after,
        }
        wish |= {name: value for name, value in numbers.items() if value is not None}
        command(rollout=wish if activate or wish else None, **more)

    for option in reversed(_OPTIONS):
        told = option(told)
    return told


@click.command()
@click.argument("deployment", metavar="DEPLOYMENT|TEAM/MODEL")
@click.option(
    "--watch",
    "watching",
    is_flag=True,
    help="Stay until all nodes have followed; exit code 1 if they do not.",
)
@output.as_json
def promote(deployment: str, watching: bool, as_json: bool) -> None:
    """Let the other nodes follow the canaries, which are checked once more."""
    with connect() as client:
        changed = client.promote(_which(client, deployment))
        if watching:
            changed = watch(client, changed)
    _tell(changed, as_json)
    if watching and changed.trouble:
        raise Failure(changed.trouble)


@click.command()
@click.argument("deployment", metavar="DEPLOYMENT|TEAM/MODEL")
@click.option("--watch", "watching", is_flag=True, help="Stay until every node has gone back.")
@output.as_json
def rollback(deployment: str, watching: bool, as_json: bool) -> None:
    """Let every node go back to the version that it ran before.

    Named by a model, it is the newest rollout of it. Files are still there: only links are switched.
    """
    with connect() as client:
        changed = client.roll_back(_which(client, deployment))
        if watching:
            changed = watch(client, changed, until=lambda one: one.has_gone_back)
    _tell(changed, as_json)


def _which(client: Client, name: str) -> str:
    """The deployment's id; of a model that of the newest rollout that was not rolled back."""
    if name.startswith("dep-") and "/" not in name:
        return name
    model = name if "/" in name else f"{team_of(client, '')}/{name}"
    for one in client.deployments(model):
        if one.model == model and one.rollout is not None and one.rollout.get("state") != "rolled_back":
            return one.id
    raise Failure(f"No version of {model} was made active. See: trainmaster deployments")


def _tell(changed: Deployment, as_json: bool) -> None:
    if as_json:
        output.dump(changed)
        return
    rollout = changed.rollout or {}
    state = str(rollout.get("state", "")).replace("_", " ")
    active = f"{rollout.get('nodes_active', 0)} of {rollout.get('nodes', 0)} nodes run it"
    click.echo(f"{changed.model} version {changed.version} ({changed.id}) is {state}; {active}")
