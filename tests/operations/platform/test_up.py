"""`trainmaster up` for real: started, crashed, started again, beside another, stopped."""

import gzip
import json
import os
import re
import signal
import time
import urllib.request
from email.message import Message
from pathlib import Path
from typing import Any

import psycopg
import pytest

from webapp.operations.platform_process import PlatformProcess
from webapp.operations.state_folder import (
    StateFolder,
    read_environment,
    recorded_process,
    wait_until_gone,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
PROGRAMS = {"web", "router", "worker", "beat", "gateway", "watch", "postgres", "valkey"}


def pid_files(platform: PlatformProcess) -> dict[str, Path]:
    found = [*(platform.folder / "run").glob("*.pid"), *platform.folder.glob("*.pid")]
    return {path.stem: path for path in found if path.stem not in {"up", "process"}}


def pid_of(platform: PlatformProcess, program: str) -> int:
    process = recorded_process(pid_files(platform)[program])
    assert process is not None, f"{program} does not run"
    return process.pid


def status(url: str) -> int:
    with urllib.request.urlopen(url, timeout=10) as response:
        return int(response.status)


def rows(platform: PlatformProcess, query: str) -> list[tuple[Any, ...]]:
    """Asked of its database, which is quicker than a Django of its own for each question."""
    url = read_environment(platform.folder / "platform.env")["DATABASE_URL"]
    with psycopg.connect(url) as connection:
        return connection.execute(query).fetchall()


def fetch(url: str) -> tuple[bytes, Message]:
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read(), response.headers


def test_pages_are_compressed_and_their_assets_are_cached_for_ever(platform: PlatformProcess) -> None:
    assert status(f"{platform.url}/healthz") == 200
    body, headers = fetch(f"{platform.url}/login/")
    assert headers["Content-Encoding"] == "gzip"
    page = gzip.decompress(body).decode()
    assets = re.findall(r'(?:href|src)="(/static/[^"]+\.(?:css|js))"', page)
    assert assets, "the page has a stylesheet"
    for asset in assets:
        assert re.search(r"\.[0-9a-f]{12}\.", asset), f"{asset} has no hash in its name"
        _, headers = fetch(f"{platform.url}{asset}")
        assert headers["Content-Encoding"] == "gzip"
        assert "immutable" in headers["Cache-Control"]


def test_a_module_imports_the_others_by_their_hashed_names(platform: PlatformProcess) -> None:
    manifest = json.loads((platform.folder / "static" / "staticfiles.json").read_text())["paths"]
    body, _ = fetch(f"{platform.url}/static/{manifest['js/app.js']}")
    imported = re.findall(r'"\./([^"]+)"', gzip.decompress(body).decode())
    assert imported
    assert {f"js/{name}" for name in imported} <= set(manifest.values())
    assert fetch(f"{platform.url}/static/{manifest['plotly/plotly.min.js']}")[1]["Content-Encoding"] == "gzip"


NODES = """
SELECT (SELECT count(*) FROM nodes_slot WHERE node_id = node.id), hostname, rack, state,
  transfer_port, rendezvous_port_low, rendezvous_port_high
FROM nodes_node AS node WHERE hostname LIKE 'node-%' ORDER BY hostname
"""


def test_its_nodes_join_and_each_has_ports_of_its_own(platform: PlatformProcess) -> None:
    wanted = [(3, "node-1", "rack-1", "ready"), (3, "node-2", "rack-1", "ready")]
    deadline = time.monotonic() + 60
    found = rows(platform, NODES)
    while [row[:4] for row in found] != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
        found = rows(platform, NODES)
    (*_, transfer, low, high), (*_, other_transfer, other_low, other_high) = found
    assert transfer != other_transfer
    assert high < other_low or other_high < low


def test_one_that_loses_a_program_stops_as_a_whole_and_leaves_its_neighbour_alone(
    platform: PlatformProcess, passable: Path
) -> None:
    with (passable / "output").open("wb") as output:
        neighbour = PlatformProcess.start(passable / "neighbour", "--agents", "0", output=output)
    try:
        assert neighbour.url != platform.url
        assert pid_files(neighbour).keys() == PROGRAMS
        files = list(pid_files(neighbour).values())
        os.kill(pid_of(neighbour, "gateway"), signal.SIGKILL)
        assert neighbour.process.wait(60) == 1
        assert wait_until_gone(files, seconds=5)
        assert "gateway ended with code -9, so everything was stopped" in (passable / "output").read_text()
        assert status(f"{platform.url}/healthz") == 200
    finally:
        neighbour.stop()


def test_a_database_that_dies_stops_the_platform_too(passable: Path) -> None:
    """One that has lost a program before, and was started again."""
    with (passable / "output").open("wb") as output:
        platform = PlatformProcess.start(passable / "neighbour", "--agents", "0", output=output)
    os.kill(pid_of(platform, "valkey"), signal.SIGKILL)
    assert platform.process.wait(60) == 1
    assert "ended with code" in (passable / "output").read_text()


EVERYTHING = "SELECT username, password, date_joined FROM accounts_user"


def test_after_a_crash_nothing_runs_on_and_a_restart_finds_everything(
    platform: PlatformProcess,
) -> None:
    folder = platform.folder
    kept = rows(platform, EVERYTHING)
    secrets = StateFolder(folder).secrets()
    files = list(pid_files(platform).values())
    platform.process.kill()
    platform.process.wait()
    assert wait_until_gone(files, seconds=20), "the children of a killed platform run on"
    again = PlatformProcess.start(folder, "--agents", "0")
    try:
        assert again.url == platform.url
        assert StateFolder(folder).secrets() == secrets
        assert rows(again, EVERYTHING) == kept != []
        files = list(pid_files(again).values())
    finally:
        code = again.stop()
    assert code == 0
    assert wait_until_gone(files, seconds=1)
