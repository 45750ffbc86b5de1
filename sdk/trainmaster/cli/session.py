"""The platform that the commands use, and the token."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

import httpx

from trainmaster.cli.commands import Failure
from trainmaster.client import TIMEOUT, Client
from trainmaster.environment import client_environment


@dataclass(frozen=True, slots=True)
class Login:
    url: str = ""
    token: str = ""


def connect(timeout: httpx.Timeout = TIMEOUT) -> Client:
    """To TRAINMASTER_URL with TRAINMASTER_TOKEN, else to the platform of `trainmaster login`."""
    environment = client_environment()
    known = read_login(environment.config_file)
    url = (environment.url or known.url).rstrip("/")
    if not url:
        raise Failure("No platform is known here: run `trainmaster login URL`, or set TRAINMASTER_URL.")
    # The stored token is sent only to the platform that it was stored for.
    token = environment.token or (known.token if url == known.url else "")
    if not token:
        raise Failure(
            f"There is no token for {url}: run `trainmaster login {url}`, or set TRAINMASTER_TOKEN."
        )
    return Client(url, token, timeout)


def team_of(client: Client, team: str) -> str:
    """This team; if it is empty, the only one it can be."""
    if team:
        return team
    me = client.me()
    if me.token_team:
        return me.token_team
    if len(me.teams) == 1:
        return next(iter(me.teams))
    teams = ", ".join(sorted(me.teams)) or "none"
    raise Failure(f"Which team? You are in {teams}. Name it with --team, or in the job file as `team`.")


def read_login(file: Path) -> Login:
    try:
        fields = tomllib.loads(file.read_text())
    except FileNotFoundError:
        return Login()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise Failure(f"{file} cannot be read: {why}. Run `trainmaster login` to write it again.") from error
    return Login(str(fields.get("url", "")).rstrip("/"), str(fields.get("token", "")))


def write_login(file: Path, login: Login) -> None:
    """Readable by this user alone. The file is replaced as a whole."""
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    temporary = file.with_suffix(".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w") as stream:
        # A JSON string is a TOML string as well.
        stream.write(f"url = {json.dumps(login.url)}\ntoken = {json.dumps(login.token)}\n")
    temporary.rename(file)
