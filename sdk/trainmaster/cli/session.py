"""Which platform the commands speak to, and as whom."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from trainmaster.cli.commands import Failure
from trainmaster.client import Client
from trainmaster.environment import client_environment


@dataclass(frozen=True, slots=True)
class Login:
    url: str = ""
    token: str = ""


def connect() -> Client:
    """By TRAINMASTER_URL and TRAINMASTER_TOKEN, else by what `trainmaster login` has written."""
    surroundings = client_environment()
    known = read_login(surroundings.config_file)
    url = (surroundings.url or known.url).rstrip("/")
    if not url:
        raise Failure("No platform is known here: run `trainmaster login URL`, or set TRAINMASTER_URL.")
    # The token on disk belongs to the platform it was made by; no other one gets to see it.
    token = surroundings.token or (known.token if url == known.url else "")
    if not token:
        raise Failure(
            f"There is no token for {url}: run `trainmaster login {url}`, or set TRAINMASTER_TOKEN."
        )
    return Client(url, token)


def team_of(client: Client, named: str) -> str:
    """The team that was named, else the only one it can be."""
    if named:
        return named
    me = client.me()
    if me.token_team:
        return me.token_team
    if len(me.teams) == 1:
        return next(iter(me.teams))
    which = ", ".join(sorted(me.teams)) or "none"
    raise Failure(f"Which team? You are in {which}. Name it with --team, or in the job file as `team`.")


def read_login(file: Path) -> Login:
    try:
        found = tomllib.loads(file.read_text())
    except FileNotFoundError:
        return Login()
    except (OSError, ValueError) as error:
        raise Failure(f"{file} cannot be read: {error}. Run `trainmaster login` to write it anew.") from error
    return Login(str(found.get("url", "")).rstrip("/"), str(found.get("token", "")))


def write_login(file: Path, login: Login) -> None:
    """Readable by this user alone; the old file stays whole until the new one is."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = file.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as written:
        # A JSON text is a TOML text as well.
        written.write(f"url = {json.dumps(login.url)}\ntoken = {json.dumps(login.token)}\n")
    temporary.rename(file)
