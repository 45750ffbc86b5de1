"""The platform that this machine talks to, and the token: from the environment, or as `trainmaster login` left them."""

from __future__ import annotations

import json
import os
import tomllib
from dataclasses import dataclass
from pathlib import Path

from platform_core.errors import TrainmasterError
from trainmaster.environment import ClientEnvironment


@dataclass(frozen=True, slots=True)
class Login:
    url: str = ""
    token: str = ""


def current_login(environment: ClientEnvironment) -> Login:
    """TRAINMASTER_URL with TRAINMASTER_TOKEN, else the stored login; fields are empty where nothing is known."""
    if environment.url and environment.token:
        return Login(environment.url.rstrip("/"), environment.token)
    stored = read_login(environment.config_file)
    url = (environment.url or stored.url).rstrip("/")
    # The stored token is sent only to the platform that it was stored for.
    return Login(url, environment.token or (stored.token if url == stored.url else ""))


def read_login(file: Path) -> Login:
    try:
        fields = tomllib.loads(file.read_text())
    except FileNotFoundError:
        return Login()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        sentence = f"{file} cannot be read: {why}. Run `trainmaster login` to write it again."
        raise TrainmasterError("request_invalid", sentence) from error
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
