"""`trainmaster service-levels`: what the platform promises and how it keeps it; targets are set by administrators."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import click

from platform_core.units import format_duration_ms
from trainmaster.cli import output
from trainmaster.cli.nodes import Duration
from trainmaster.cli.session import connect

_NO_DATA = "no data"


@click.group("service-levels", invoke_without_command=True)
@click.option("--team", default="", help="The levels of this team; without it the cluster's.")
@output.options
@click.pass_context
def service_levels(ctx: click.Context, team: str, as_json: bool) -> None:
    """List the service levels of the platform; `service-levels set` changes a target.

    Without a command it lists them over 28 and 7 days, with the error budget that is left.
    """
    if ctx.invoked_subcommand is not None:
        return
    with connect() as client:
        body: Any = client.call("GET", "service-levels", params={"team": team} if team else {})
    if as_json:
        output.dump_json(body)
        return
    output.table(
        ("CODE", "STANDING", "TARGET", "28 DAYS", "7 DAYS", "BUDGET LEFT", "TREND"),
        [
            (
                level["code"], level["standing"].replace("_", " "), _percent(level["target"]),
                _percent(level["month"]["compliance"]), _percent(level["week"]["compliance"]),
                _percent(level["budget_left"]), level["trend"].replace("_", " "),
            )
            for level in body["results"]
        ],
        empty="No service levels.",
    )  # fmt: skip
    for size in body["first_steps"]:
        p50, p95 = format_duration_ms(size["p50_ms"]), format_duration_ms(size["p95_ms"])
        click.echo(
            f"First step of jobs of {size['size']} GPUs, 7 days: p50 {p50}, p95 {p95} ({size['jobs']} jobs)"
        )
    if body["recovery_ms"] is not None and not team:
        click.echo(f"Mean time to recovery, 7 days: {format_duration_ms(body['recovery_ms'])}")


@service_levels.command("set")
@click.argument("code")
@click.option("--target", type=float, help="Percent of the events that are to be good, such as 99.9.")
@click.option("--limit", "limit_ms", metavar="DURATION", type=Duration(), help="Such as 90s, 5m or 2h.")
@click.option("--default", "default", is_flag=True, help="Use the default target and limit again.")
@output.options
def set_level(code: str, target: float | None, limit_ms: int | None, default: bool, as_json: bool) -> None:
    """Set another target or limit for CODE, as a platform administrator."""
    changes: dict[str, Any] = {}
    if target is not None:
        changes["target"] = round(target / 100, 9)
    if limit_ms is not None:
        changes["limit_ms"] = limit_ms
    if default == bool(changes):
        raise click.UsageError("Give --target, --limit or both; or --default alone.")
    path = f"service-levels/{quote(code, safe='')}"
    with connect() as client:
        level: Any = client.call("DELETE", path) if default else client.call("PATCH", path, json=changes)
    if as_json:
        output.dump_json(level)
        return
    limit = "" if level["limit_ms"] is None else f" within {format_duration_ms(level['limit_ms'])}"
    click.echo(f"{level['title']}: the target is {_percent(level['target'])}{limit}.")


def _percent(share: float | None) -> str:
    """Rounded down, so that what is not all never reads as 100 %."""
    return _NO_DATA if share is None else f"{100_000 * share // 1 / 1000:g} %"
