"""`trainmaster whoami`, `teams` and `quota`."""

from __future__ import annotations

import click

from trainmaster.answers import Quota
from trainmaster.cli import output
from trainmaster.cli.session import connect


@click.command()
@output.options
def whoami(as_json: bool) -> None:
    """Show who you are: user, teams with roles, server and token."""
    with connect() as client:
        me = client.me()
    if as_json:
        output.dump(me)
        return
    roles = ", ".join(f"{team} ({role})" for team, role in sorted(me.teams.items()))
    token = (
        f"{me.token_name or 'unnamed'}, for {f'team {me.token_team}' if me.token_team else 'the platform'}"
    )
    output.facts(
        [
            ("user", me.username),
            ("admin", "yes" if me.admin else ""),
            ("teams", roles or "none"),
            ("server", client.url),
            ("token", token),
            ("expires", f"in {output.until(me.token_expires_ms)}" if me.token_expires_ms else ""),
        ]
    )


@click.command()
@output.options
def teams(as_json: bool) -> None:
    """List your teams with your role; platform admins see all teams."""
    with connect() as client:
        me, rows = client.me(), client.teams()
    if as_json:
        output.dump(rows)
        return
    output.table(
        ("TEAM", "NAME", "ROLE", "DEPARTMENT", "WEIGHT"),
        [(row.slug, row.name, me.teams.get(row.slug, ""), row.department, row.weight) for row in rows],
        empty="You are in no team. Ask a lead to add you.",
    )


@click.command()
@click.argument("team", required=False)
@output.options
def quota(team: str | None, as_json: bool) -> None:
    """Show the GPU quota of a team, and what it uses and waits for.

    Without TEAM all your teams. GUARANTEED and MAXIMUM are GPUs; IN USE beyond the guarantee is BORROWED from other
    teams and may be reclaimed. WAITING are the GPUs that the team's waiting jobs ask for.
    """
    with connect() as client:
        names = [team] if team else [row.slug for row in client.teams()]
        quotas = [(name, quota) for name in names for quota in client.quotas(name)]
    if as_json:
        output.dump([quota for _, quota in quotas])
        return
    output.table(
        ("TEAM", "GPU TYPE", "GUARANTEED", "MAXIMUM", "IN USE", "BORROWED", "WAITING"),
        [(name, *_numbers(quota)) for name, quota in quotas],
        empty=f"{team or 'None of your teams'} has no quota. A lead sets one on the team's page.",
    )
    for notice in dict.fromkeys(quota.notice for _, quota in quotas if quota.notice):
        click.echo(notice, err=True)


def _numbers(quota: Quota) -> tuple[object, ...]:
    return quota.gpu_type, quota.guaranteed, quota.maximum, quota.held, quota.borrowed, quota.waiting
