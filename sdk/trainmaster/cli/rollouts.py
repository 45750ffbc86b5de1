"""`trainmaster promote` and `rollback`, and the options of `deploy` for a rollout."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from trainmaster.answers import Deployment
from trainmaster.cli import output
from trainmaster.cli.commands import Failure
from trainmaster.cli.progress import watch
from trainmaster.cli.session import connect
from trainmaster.client import Client

_OPTIONS = (
    click.option("--activate", is_flag=True, help="Switch each node to the version as soon as it has the files."),
    click.option(
        "--canary", default="", metavar="N|N%",
        help="Switch this many nodes first, 3 or 10%. This and the following options imply --activate.",
    ),
    click.option(
        "--hold", metavar="SECONDS", type=click.IntRange(0),
        help="Watch the canaries this long before the rollout continues; by default until `promote`.",
    ),
    click.option(
        "--health-check", default="", metavar="COMMAND", help="Command in the hooks folder that canaries must pass."
    ),
    click.option(
        "--check-every", metavar="SECONDS", type=click.IntRange(0),
        help="Interval of the health check during the hold, 30 by default; 0: only at its start and end.",
    ),
    click.option(
        "--roll-back-after", metavar="N", type=click.IntRange(1),
        help="Roll back all nodes after N failed checks in a row; by default the first failure stops the rollout.",
    ),
    click.option("--hook", default="", metavar="COMMAND", help="Command in the hooks folder to run after the switch."),
    click.option("--wait-for-all", is_flag=True, help="Switch no node before all nodes have the files."),
)  # fmt: skip


def rollout_options(command: Callable[..., None]) -> Callable[..., None]:
    """Options of `deploy`, which gets them as one mapping `rollout`; None when the files alone are sent."""

    @functools.wraps(command)
    def with_rollout(
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
        texts: dict[str, Any] = {
            "canary": canary,
            "health_check": health_check,
            "hook": hook,
            "wait_for_all": wait_for_all,
        }
        rollout = {name: value for name, value in texts.items() if value}
        numbers = {
            "hold_seconds": hold,
            "check_every_seconds": check_every,
            "roll_back_after": roll_back_after,
        }
        rollout |= {name: value for name, value in numbers.items() if value is not None}
        command(rollout=rollout if activate or rollout else None, **more)

    for option in reversed(_OPTIONS):
        with_rollout = option(with_rollout)
    return with_rollout


@click.command()
@click.argument("deployment", metavar="DEPLOYMENT|TEAM/MODEL")
@click.option(
    "--watch",
    "watching",
    is_flag=True,
    help="Stay until all nodes run the version; exit code 1 if they do not.",
)
@output.options
def promote(deployment: str, watching: bool, as_json: bool) -> None:
    """Promote a rollout: the canaries are checked once more, then the other nodes switch.

    With a model it is the newest rollout of it.
    """
    with connect() as client:
        changed = client.promote(_which(client, deployment))
        if watching:
            changed = watch(client, changed)
    _show(changed, as_json)
    if watching and changed.trouble:
        raise Failure(changed.trouble)


@click.command()
@click.argument("deployment", metavar="DEPLOYMENT|TEAM/MODEL")
@click.option("--watch", "watching", is_flag=True, help="Stay until every node has switched back.")
@output.options
def rollback(deployment: str, watching: bool, as_json: bool) -> None:
    """Roll back: every node switches to the version it ran before.

    With a model it is the newest rollout of it. No files are sent: the nodes still have them.
    """
    with connect() as client:
        changed = client.roll_back(_which(client, deployment))
        if watching:
            changed = watch(client, changed, until=lambda deployment: deployment.has_gone_back)
    _show(changed, as_json)


def _which(client: Client, name: str) -> str:
    """The deployment's id; for a model that of its newest rollout that was not rolled back."""
    if name.startswith("dep-") and "/" not in name:
        return name
    model = name if "/" in name else f"{client.only_team('')}/{name}"
    for deployment in client.deployments(model):
        rollout = deployment.rollout
        if deployment.model == model and rollout is not None and rollout.get("state") != "rolled_back":
            return deployment.id
    raise Failure(f"{model} has no rollout. See: trainmaster deployments")


def _show(changed: Deployment, as_json: bool) -> None:
    if as_json:
        output.dump(changed)
        return
    rollout = changed.rollout or {}
    state = str(rollout.get("state", "")).replace("_", " ")
    active = f"{rollout.get('nodes_active', 0)} of {rollout.get('nodes', 0)} nodes run it"
    click.echo(f"{changed.model} version {changed.version} ({changed.id}) is {state}; {active}")
