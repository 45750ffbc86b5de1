"""`trainmaster alerts`: what fires, acknowledge it, silence it, try a condition."""

from __future__ import annotations

from typing import Any

import click

from trainmaster.cli import output
from trainmaster.cli.nodes import Duration
from trainmaster.cli.session import connect

STATES = ("open", "all", "firing", "no_data", "resolved")


@click.group(invoke_without_command=True)
@click.option(
    "--state", type=click.Choice(STATES), default="open", show_default=True, help="Only in this state."
)
@click.option("--team", default="", help="Only of this team; - is the cluster.")
@output.options
@click.pass_context
def alerts(ctx: click.Context, state: str, team: str, as_json: bool) -> None:
    """List alerts; `alerts acknowledge`, `alerts silence` and `alerts preview` handle them.

    Without a command it lists the alerts of your teams and of the cluster, newest first.
    """
    if ctx.invoked_subcommand is not None:
        return
    with connect() as client:
        body: Any = client.call("GET", "alerts", params={"state": state, "team": team})
    if as_json:
        output.dump_json(body["results"])
        return
    output.table(
        ("ID", "SEVERITY", "STATE", "SINCE", "TEAM", "ALERT"),
        [
            (
                alert["id"], alert["severity"], _state(alert), f"{output.age(alert['since_ms'])} ago", alert["team"],
                alert["sentence"],
            )
            for alert in body["results"]
        ],
        empty="No alerts.",
    )  # fmt: skip


def _state(alert: dict[str, Any]) -> str:
    by = alert["acknowledged_by"]
    return f"{alert['state']}, acknowledged by {by}" if by else alert["state"]


@alerts.command()
@click.argument("alert")
@click.option("--note", default="", help="Who looks after it, and how.")
@output.options
def acknowledge(alert: str, note: str, as_json: bool) -> None:
    """Acknowledge ALERT (an id): nobody is told of it again until it is over."""
    with connect() as client:
        body: Any = client.call("POST", f"alerts/{alert}/acknowledge", json={"note": note})
    if as_json:
        output.dump_json(body)
    else:
        click.echo(f"{body['title']} is acknowledged by {body['acknowledged_by']}.")


@alerts.command()
@click.option("--for", "lasts_ms", metavar="DURATION", type=Duration(), required=True, help="90m, 2h or 1d.")
@click.option("--reason", required=True, help="Shown beside the silence.")
@click.option("--team", default="", help="Without it: the cluster and all teams, for platform admins.")
@click.option("--rule", default="", help="Code of a rule; without it all.")
@click.option("--subject", default="", help="Id of a job or node; without it all.")
@output.options
def silence(lasts_ms: int, reason: str, team: str, rule: str, subject: str, as_json: bool) -> None:
    """Silence alerts for a time: they are shown, and nobody is told."""
    asked = {"seconds": lasts_ms // 1000, "reason": reason, "team": team, "rule": rule, "subject": subject}
    with connect() as client:
        body: Any = client.call("POST", "alerts/silences", json=asked)
    if as_json:
        output.dump_json(body)
    else:
        click.echo(f"Silence {body['id']} holds for {output.until(body['until_ms'])}.")


@alerts.command()
@click.argument("condition")
@click.option("--team", default="", help="Only what is of this team.")
@output.options
def preview(condition: str, team: str, as_json: bool) -> None:
    """List when CONDITION would have fired in the last week.

    A condition is such as 'job.utilisation < 50 for 30m clear 60'; docs/reference/alerts.md has the measures.
    """
    with connect() as client:
        body: Any = client.call("GET", "alerts/rules/preview", params={"condition": condition, "team": team})
    if as_json:
        output.dump_json(body["results"])
        return
    output.table(
        ("SUBJECT", "FIRED", "OVER", "WORST"),
        [
            (
                firing["subject"] or "cluster", f"{output.age(firing['fired_ms'])} ago",
                f"{output.age(firing['resolved_ms'])} ago" if firing["resolved_ms"] else "still",
                f"{firing['worst']:g}",
            )
            for firing in body["results"]
        ],
        empty="It would not have fired in the last week.",
    )  # fmt: skip
