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

from tests.support.collector import Collector
from webapp.operations.platform_process import PlatformProcess
from webapp.operations.state_folder import (
    StateFolder,
    read_environment,
    recorded_process,
    wait_until_gone,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]
PROGRAMS = {
    "web", "router", "scheduler", "coordinator", "worker", "beat", "gateway", "watch", "postgres", "valkey",
}  # fmt: skip


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
    wanted = [(2, "node-1", "rack-1", "ready"), (2, "node-2", "rack-1", "ready")]
    deadline = time.monotonic() + 60
    found = rows(platform, NODES)
    while [row[:4] for row in found] != wanted:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
        found = rows(platform, NODES)
    (*_, transfer, low, high), (*_, other_transfer, other_low, other_high) = found
    assert transfer != other_transfer
    assert high < other_low or other_high < low


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
MEMBER = """
from webapp.accounts import queries, services, tokens
from webapp.accounts.models import Role
from webapp.accounts.permissions import SYSTEM
from webapp.quotas.models import Quota
services.create_team(SYSTEM, "vision", "Vision")
alice = services.create_user(SYSTEM, "alice", "password of alice")
services.set_role(SYSTEM, "vision", "alice", Role.MEMBER)
Quota.objects.create(team_id="vision", gpu_type="cpu", guaranteed=6, maximum=6)
print(tokens.create_token(queries.actor_of(alice), "vision", "logs", 1).text)
"""


def submit(platform: PlatformProcess, token: str) -> tuple[str, str]:
    """The id of a job of one slot, and the X-Request-ID of the answer."""
    job = {
        "name": "one",
        "team": "vision",
        "command": "python -c 'import trainmaster as t; t.init(total_steps=1); t.log(1, loss=1.0)'",
        "strategy": "custom",
    }
    headers = {
        "Authorization": f"Bearer {token}", "Content-Type": "application/json",
        "traceparent": f"00-{TRACE}-00f067aa0ba902b7-01",
    }  # fmt: skip
    body = json.dumps({**job, "num_gpus": 1, "gpu_type": "cpu"}).encode()
    request = urllib.request.Request(f"{platform.url}/api/v1/training-jobs", body, headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.loads(response.read())["id"], response.headers["X-Request-ID"]


OF_GRPC = re.compile(r"[IWEF]\d{4} |WARNING: All log messages before absl::")


def lines(platform: PlatformProcess, *programs: str) -> list[dict[str, Any]]:
    """Of the logs of these programs; each line must be an object, but for those that gRPC's core writes by itself."""
    found = []
    for program in programs:
        log = platform.folder / "logs" / f"{program}.log"
        text = log.read_text() if log.exists() else ""  # the clock has nothing to say
        whole = text.rpartition("\n")[0]  # the last line may be half written
        found += [json.loads(line) for line in whole.split("\n") if line and not OF_GRPC.match(line)]
    return found


def test_a_job_is_followed_through_the_logs_and_the_spans_of_all_processes(
    platform: PlatformProcess, collector: Collector
) -> None:
    token = platform.manage("shell", "--no-imports", "-c", MEMBER).strip().splitlines()[-1]
    job, trace = submit(platform, token)
    assert trace == TRACE

    def told() -> dict[tuple[str, str], dict[str, Any]]:
        """(process, beginning of its message) → its first line, of those of this job."""
        written = lines(platform, "web", "scheduler", "gateway", "node-1", "node-2")
        first: dict[tuple[str, str], dict[str, Any]] = {}  # of what may come again with another attempt
        for line in written:
            if line.get("job") == job:
                first.setdefault((line["process"], line["message"].split()[0]), line)
        return first

    steps = {("web", "Submitted"), ("scheduler", "Placed"), ("agent", "starting"), ("gateway", "attempt")}
    deadline = time.monotonic() + 180
    while not steps <= (found := told()).keys():
        assert time.monotonic() < deadline, sorted(found)
        time.sleep(0.2)
    assert found["web", "Submitted"]["trace"] == TRACE
    assert found["scheduler", "Placed"]["task"] == "scheduling.tick"
    assert found["scheduler", "Placed"]["trace"]
    ordered = next(line for (process, _), line in found.items() if process == "gateway" and "attempt" in line)
    started = found["agent", "starting"]
    assert (started["attempt"], started["node"]) == (ordered["attempt"], ordered["node"])
    assert started["trace"] == ordered["trace"] == TRACE
    in_one_trace(collector)


WHOLE = "start attempt"
BELOW = {
    "submit": "POST api-jobs",
    WHOLE: "submit",
    "wait in queue": WHOLE,
    "placement": WHOLE,
    "start order": WHOLE,
    "launch": WHOLE,
    "start processes": WHOLE,
    "first step": WHOLE,
}


def in_one_trace(collector: Collector) -> None:
    """From the request to the first step, over all processes, each span below its parent."""
    deadline = time.monotonic() + 60
    while not (found := of_one_attempt(collector.spans())):
        assert time.monotonic() < deadline, sorted(span["name"] for span in collector.spans())
        time.sleep(0.1)
    for name, parent in BELOW.items():
        assert found[name]["parentSpanId"] == found[parent]["spanId"], name
    services = {"web", "scheduler", "gateway", "agent", "rank"}
    assert {f"trainmaster-{name}" for name in services} <= {span["service"] for span in found.values()}
    ends = [int(found[name]["endTimeUnixNano"]) for name in ("wait in queue", "launch", "first step")]
    assert ends == sorted(ends)


def of_one_attempt(spans: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """By name, of the first attempt that has them all: the one before may have been placed on the node that a test
    above let join and go."""
    ours = [span for span in spans if span["traceId"] == TRACE]
    for attempt in dict.fromkeys(map(attempt_of, ours)):
        of_it = [span for span in ours if attempt_of(span) in ("", attempt)]
        found = {WHOLE if span["name"].startswith(WHOLE) else span["name"]: span for span in of_it}
        if BELOW.keys() <= found.keys():
            return found
    return {}


def attempt_of(span: dict[str, Any]) -> str:
    values = {each["key"]: each["value"].get("stringValue", "") for each in span["attributes"]}
    return str(values.get("trainmaster.attempt", ""))


def test_every_line_of_every_process_is_an_object_without_secrets(platform: PlatformProcess) -> None:
    programs = ("web", "router", "scheduler", "coordinator", "worker", "beat", "gateway", "node-1", "node-2")
    written = lines(platform, *programs)
    assert not [line for line in written if line["logger"] == "uvicorn.access"]
    assert {line["process"] for line in written} >= {"web", "router", "gateway", "agent"}
    for line in written:
        assert {"time", "level", "logger", "message", "pid"} <= line.keys()
    environment = read_environment(platform.folder / "platform.env")
    secrets = [
        value for name, value in environment.items() if re.search("SECRET|TOKEN|PASSWORD", name) and value
    ]
    assert secrets
    everything = json.dumps(written)
    assert not [secret for secret in secrets if secret in everything]


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
