"""A real web process on the database of the tests."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx
import psutil
import pytest
from django.core.management import call_command
from django.db import connection

from tests.support.databases import free_port
from webapp.accounts import queries as account_queries
from webapp.accounts import services as accounts
from webapp.accounts import tokens
from webapp.accounts.models import Role
from webapp.accounts.permissions import SYSTEM
from webapp.operations.programs import WEB, runnable

START_SECONDS = 90


@dataclass(frozen=True)
class Web:
    """`port` on this machine, and the process that listens there."""

    port: int
    process: psutil.Process
    folder: str  # of its temporary files

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def written(self) -> int:
        """Bytes that its process has written to disks so far."""
        return int(self.process.io_counters().write_chars)

    def memory(self) -> int:
        return int(self.process.memory_info().rss)


@pytest.fixture(scope="package")
def token(django_db_setup: None, django_db_blocker: Any) -> Iterator[str]:
    """Of a person in a team that are committed, so that other processes see them."""
    with django_db_blocker.unblock():
        accounts.create_team(SYSTEM, "harbour", "Harbour")
        user = accounts.create_user(SYSTEM, "hanna", "password of hanna")
        accounts.set_role(SYSTEM, "harbour", "hanna", Role.MEMBER)
        text = tokens.create_token(account_queries.actor_of(user), "harbour", "tests", 1).text
    yield text
    with django_db_blocker.unblock():
        call_command("flush", verbosity=0, interactive=False)


@pytest.fixture(scope="package")
def web(token: str) -> Iterator[Web]:
    """The web process as `trainmaster up` starts it. Started once for this package: tests leave it alive."""
    port, parts = free_port(), urlsplit(os.environ["DATABASE_URL"])
    database = urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}"))
    command = [*runnable(WEB), "--host", "127.0.0.1", "--port", str(port)]
    with tempfile.TemporaryDirectory(prefix="trainmaster-web-") as folder:
        environment = {**os.environ, "DATABASE_URL": database, "TMPDIR": folder}
        process = subprocess.Popen(command, env=environment, stdout=sys.stderr, stderr=sys.stderr)
        try:
            _await(f"http://127.0.0.1:{port}/livez", process)
            yield Web(port, psutil.Process(process.pid), folder)
            assert process.poll() is None, "the web process has ended"
        finally:
            process.terminate()
            process.wait(30)


def _await(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(url, timeout=2, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.1)
    raise AssertionError(f"the web process does not answer at {url}")
