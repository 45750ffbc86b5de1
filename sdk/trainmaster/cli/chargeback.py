"""`trainmaster chargeback`: what teams are charged for a period."""

from __future__ import annotations

from typing import Any

import click

from platform_core.efficiency.chargeback import Charge, Period, as_csv
from platform_core.efficiency.waste import Total
from platform_core.units import HOUR_MS, MICRO_DOLLARS
from trainmaster.cli import output
from trainmaster.cli.session import connect


@click.command()
@click.option("--month", metavar="YYYY-MM", help="In UTC; the last that is over without it.")
@click.option("--from", "first", metavar="YYYY-MM-DD", help="First day, instead of a month.")
@click.option("--to", "last", metavar="YYYY-MM-DD", help="Last day.")
@click.option("--csv", "csv_text", is_flag=True, help="Print comma-separated values.")
@output.options
def chargeback(month: str | None, first: str | None, last: str | None, csv_text: bool, as_json: bool) -> None:
    """Show GPU-hours, cost and waste of a period by team and GPU type."""
    asked = {"month": month, "from": first, "to": last}
    with connect() as client:
        body: Any = client.call(
            "GET", "chargeback", params={name: text for name, text in asked.items() if text}
        )
    if as_json:
        output.dump_json(body)
        return
    period = Period(body["from_ms"], body["to_ms"])
    lines = [Charge(one["team"], one["gpu_type"], Total(**one["total"])) for one in body["results"]]
    if csv_text:
        click.echo(as_csv(lines, period), nl=False)
        return
    click.echo(f"{period.first} to {period.last}, UTC")
    output.table(
        ("TEAM", "GPU TYPE", "JOBS", "GPU-HOURS", "COST", "UNUSED", "WORTH", "UTILISATION", "MFU"),
        [_row(line) for line in lines],
        empty="",
    )


def _row(line: Charge) -> tuple[object, ...]:
    sums = line.total
    hours, wasted = (f"{ms / HOUR_MS:,.1f}" for ms in (sums.gpu_ms, sums.wasted_ms))
    cost, lost = (
        f"${dollars / MICRO_DOLLARS:,.2f}" for dollars in (sums.micro_dollars, sums.wasted_micro_dollars)
    )
    shares = ("–" if share is None else f"{share:.0%}" for share in (sums.utilisation, sums.mfu))
    return (line.team, line.gpu_type, sums.jobs, hours, cost, wasted, lost, *shares)
