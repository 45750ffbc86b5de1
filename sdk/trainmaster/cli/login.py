"""`trainmaster login`."""

from __future__ import annotations

import sys

import click

from trainmaster.client import Client
from trainmaster.environment import client_environment
from trainmaster.login import Login, read_login, write_login


@click.command()
@click.argument("url", required=False)
@click.option(
    "--token-stdin", is_flag=True, help="Read the token from standard input instead of asking for it."
)
def login(url: str | None, token_stdin: bool) -> None:
    """Log in to the platform at URL with an API token.

    Make the token in the browser under Settings. It is checked at once and stored in
    ~/.config/trainmaster/config.toml, readable by you alone.
    """
    environment = client_environment()
    url = (url or environment.url or read_login(environment.config_file).url).rstrip("/")
    if not url:
        raise click.UsageError("Give the address of the platform: trainmaster login https://…")
    if "://" not in url:
        raise click.UsageError(f"{url} is not an address; it must begin with http:// or https://")
    if token_stdin:
        token = sys.stdin.readline().strip()
    else:
        token = click.prompt(f"API token (from {url}/settings/)", hide_input=True).strip()
    with Client(url, token) as client:
        me = client.me()
    write_login(environment.config_file, Login(url, token))
    team = f", for team {me.token_team}" if me.token_team else ""
    click.echo(f"Logged in to {url} as {me.username}{team}.")
