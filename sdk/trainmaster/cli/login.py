"""`trainmaster login`."""

from __future__ import annotations

import sys

import click

from trainmaster.cli.session import Login, read_login, write_login
from trainmaster.client import Client
from trainmaster.environment import client_environment


@click.command()
@click.argument("url", required=False)
@click.option(
    "--token-stdin", is_flag=True, help="Read the token from standard input instead of asking for it."
)
def login(url: str | None, token_stdin: bool) -> None:
    """Remember a platform and your API token for it.

    Make the token in the browser under Settings. It is tried at once and kept in
    ~/.config/trainmaster/config.toml, readable by you alone.
    """
    surroundings = client_environment()
    url = (url or surroundings.url or read_login(surroundings.config_file).url).rstrip("/")
    if not url:
        raise click.UsageError("Name the address of the platform: trainmaster login http://…")
    if "://" not in url:
        raise click.UsageError(f"{url} is no address; it begins with http:// or https://")
    if token_stdin:
        token = sys.stdin.readline().strip()
    else:
        token = click.prompt(f"API token (from {url}/settings/)", hide_input=True).strip()
    with Client(url, token) as client:
        me = client.me()
    write_login(surroundings.config_file, Login(url, token))
    whose = f", for team {me.token_team}" if me.token_team else ""
    click.echo(f"Logged in to {url} as {me.username}{whose}.")
