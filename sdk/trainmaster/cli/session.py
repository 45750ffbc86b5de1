"""The platform that the commands use."""

from __future__ import annotations

import httpx

from trainmaster.cli.commands import Failure
from trainmaster.client import Client
from trainmaster.connection import TIMEOUT
from trainmaster.environment import client_environment
from trainmaster.login import current_login


def connect(timeout: httpx.Timeout = TIMEOUT) -> Client:
    """To TRAINMASTER_URL with TRAINMASTER_TOKEN, else to the platform of `trainmaster login`."""
    login = current_login(client_environment())
    if not login.url:
        raise Failure("No platform is known here: run `trainmaster login URL`, or set TRAINMASTER_URL.")
    if not login.token:
        raise Failure(
            f"There is no token for {login.url}: run `trainmaster login {login.url}`, or set TRAINMASTER_TOKEN."
        )
    return Client(login.url, login.token, timeout)
