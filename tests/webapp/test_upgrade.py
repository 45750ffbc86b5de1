"""A database of the last release, with one of everything in it, under the code of today."""

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest

from tests.support import databases
from tools.release_snapshot import DATABASE, ROOT
from webapp.operations import dump

# As an operator upgrades: migrate, check the books, then two people follow every link. The dump has no store, so files
# are not downloaded.
UPGRADE = """
import re
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.test import Client
call_command("migrate", verbosity=0)
call_command("check_books")
for username in ("root", "alice"):
    client = Client(headers={"host": "localhost"})
    client.force_login(get_user_model().objects.get(username=username))
    waiting, seen, broken = ["/"], set(), []
    while waiting:
        path = waiting.pop(0)
        answer = client.get(path)
        if answer.status_code >= 400:
            broken.append((path, answer.status_code))
        if "html" not in answer.headers.get("Content-Type", ""):
            continue
        for link in re.findall(r'<a [^>]*href="(/[^"#]*)', answer.content.decode()):
            path = link.partition("?")[0]
            if path not in seen and not path.startswith("/admin") and "/artifacts/" not in path:
                seen.add(path)
                waiting.append(link.replace("&amp;", "&"))
    assert not broken, broken
    print(username, "followed", len(seen), "links")
"""


@pytest.fixture
def released() -> Iterator[str]:
    """The address of a database as the last release left it."""
    server = databases.provide()
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE released")
    url = server.url.rpartition("/")[0] + "/released"
    dump.restore(url, DATABASE)
    yield url
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE released WITH (FORCE)")


def count(url: str, query: LiteralString) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute(query).fetchone()
    return int(row[0]) if row else 0


def test_a_database_of_the_last_release_is_migrated_and_every_page_of_it_opens(released: str) -> None:
    points = count(released, "SELECT count(*) FROM experiments_metricpoint")
    environment = os.environ | {"DATABASE_URL": released, "TRAINMASTER_LOG_LEVEL": "ERROR"}
    done = subprocess.run(
        [sys.executable, "manage.py", "shell", "--no-imports", "-c", UPGRADE],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert count(released, "SELECT sum(count) FROM metrics_series") == points > 0
    assert "The books agree" in done.stdout
    assert "alice followed" in done.stdout
