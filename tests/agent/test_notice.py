"""Where the agent looks for word that its machine is taken away."""

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.probes.notice import Notice
from tests.agent.conftest import AgentProcess
from tests.support.gateway import Gateway


def is_given(url: str) -> bool:
    return Notice(url=url).is_given()


@pytest.mark.parametrize(
    ("text", "given"), [("TRUE", True), ('{"action": "terminate"}', True), ("FALSE\n", False), ("", False)]
)
def test_a_file_says_it(tmp_path: Path, text: str, given: bool) -> None:
    file = tmp_path / "notice"
    assert not is_given(file.as_uri())
    file.write_text(text)
    assert is_given(file.as_uri()) is given


@pytest.fixture
def cloud() -> Iterator[tuple[str, dict[str, int]]]:
    """A metadata service that answers 404 until its status is changed."""
    answer = {"status": 404}

    class Metadata(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(answer["status"])
            self.end_headers()
            self.wfile.write(b"terminate")

        def log_message(self, *_: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Metadata)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", answer
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_metadata_service_says_it(cloud: tuple[str, dict[str, int]]) -> None:
    url, answer = cloud
    assert not is_given(url)
    answer["status"] = 200
    assert is_given(url)


def test_nobody_who_answers_is_no_notice() -> None:
    assert not is_given("http://127.0.0.1:1/")


class StandIn:
    """A metadata service that demands what the cloud demands, and answers what stands in `said`, by path."""

    def __init__(self, cloud: str) -> None:
        self.cloud, self.said, self.tokens = cloud, dict[str, str](), 0
        self.refuses = 0
        self.address = ""

    def answer(self, method: str, path: str, headers: Any) -> tuple[int, str]:
        if self.refuses:
            return self.refuses, "no"
        if self.cloud == "aws" and (method, path) == ("PUT", "/latest/api/token"):
            if not headers.get("X-aws-ec2-metadata-token-ttl-seconds", "").isdigit():
                return 400, ""
            self.tokens += 1
            return 200, f"token-{self.tokens}"
        if self.cloud == "aws" and headers.get("X-aws-ec2-metadata-token") != f"token-{self.tokens}":
            return 401, "Unauthorized"
        if self.cloud == "gcp" and headers.get("Metadata-Flavor") != "Google":
            return 403, "Missing Metadata-Flavor:Google header."
        if self.cloud == "azure" and (headers.get("Metadata") != "true" or "api-version=" not in path):
            return 400, "Bad request"
        return (200, self.said[path]) if path in self.said else (404, "")


@pytest.fixture
def metadata() -> Iterator[Callable[[str], StandIn]]:
    servers = []

    def begin(cloud: str) -> StandIn:
        stand_in = StandIn(cloud)

        class Metadata(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, text = stand_in.answer(self.command, self.path, self.headers)
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            do_PUT = do_GET

            def log_message(self, *_: Any) -> None:
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Metadata)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        servers.append((server, thread))
        stand_in.address = f"http://127.0.0.1:{server.server_port}"
        if cloud == "gcp":
            stand_in.said |= {PREEMPTED: "FALSE", MAINTENANCE: "NONE"}
        if cloud == "azure":
            stand_in.said |= {EVENTS: json.dumps({"Events": []}), NAME: "vm-7"}
        return stand_in

    yield begin
    for server, thread in servers:
        server.shutdown()
        thread.join()
        server.server_close()


ACTION = "/latest/meta-data/spot/instance-action"
REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
PREEMPTED = "/computeMetadata/v1/instance/preempted"
MAINTENANCE = "/computeMetadata/v1/instance/maintenance-event"
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"


def azure(kind: str, *machines: str) -> str:
    return json.dumps({"Events": [{"EventType": kind, "Resources": machines, "EventStatus": "Scheduled"}]})


@pytest.mark.parametrize(
    ("cloud", "path", "text", "given"),
    [
        ("aws", ACTION, '{"action": "terminate", "time": "2026-11-28T06:00:00Z"}', True),
        ("aws", REBALANCE, '{"noticeTime": "2026-11-28T06:00:00Z"}', True),
        ("gcp", PREEMPTED, "TRUE", True),
        ("gcp", MAINTENANCE, "TERMINATE_ON_HOST_MAINTENANCE", True),
        ("gcp", MAINTENANCE, "MIGRATE_ON_HOST_MAINTENANCE", False),
        ("azure", EVENTS, azure("Preempt", "vm-7"), True),
        ("azure", EVENTS, azure("Terminate", "vm-6", "vm-7"), True),
        ("azure", EVENTS, azure("Preempt", "vm-6"), False),
        ("azure", EVENTS, azure("Reboot", "vm-7"), False),
    ],
)
def test_a_cloud_that_demands_a_token_or_a_header_is_heard(
    metadata: Callable[[str], StandIn],
    caplog: pytest.LogCaptureFixture,
    cloud: str,
    path: str,
    text: str,
    given: bool,
) -> None:
    service = metadata(cloud)
    notice = Notice(cloud, address=service.address)
    assert not notice.is_given()
    service.said[path] = text
    assert notice.is_given() is given
    assert caplog.messages == []


def test_a_token_that_has_expired_is_got_anew(metadata: Callable[[str], StandIn]) -> None:
    service = metadata("aws")
    notice = Notice("aws", address=service.address)
    assert not notice.is_given()
    service.tokens += 1  # the one that it has counts no longer
    service.said[ACTION] = "{}"
    assert notice.is_given()


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_service_that_refuses_is_said_once(
    metadata: Callable[[str], StandIn], caplog: pytest.LogCaptureFixture, cloud: str, status: int
) -> None:
    service = metadata(cloud)
    notice = Notice(cloud, address=service.address)
    service.refuses = status
    for _ in range(3):
        assert not notice.is_given()
    assert len(caplog.messages) == len(set(caplog.messages)) <= 2
    assert f"it answers {status}" in caplog.messages[0]


@pytest.mark.parametrize("cloud", ["aws", "gcp", "azure"])
def test_a_service_that_cannot_be_reached_is_said_once(caplog: pytest.LogCaptureFixture, cloud: str) -> None:
    notice = Notice(cloud, address="http://127.0.0.1:1")
    for _ in range(3):
        assert not notice.is_given()
    assert 1 <= len(caplog.messages) <= 2
    assert "does not say whether this machine is taken away" in caplog.messages[0]


def test_an_answer_that_is_no_answer_is_said(
    metadata: Callable[[str], StandIn], caplog: pytest.LogCaptureFixture
) -> None:
    service = metadata("azure")
    for text in ("<html>", "[]", '{"Events": [1]}', '{"Events": null}'):
        service.said[EVENTS] = text
        assert not Notice("azure", address=service.address).is_given()
    assert len(caplog.messages) == 4


def test_a_proxy_is_not_asked_for_this_machine(
    metadata: Callable[[str], StandIn], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    service = metadata("gcp")
    service.said[PREEMPTED] = "TRUE"
    assert Notice("gcp", address=service.address).is_given()


async def test_the_notice_goes_up_with_the_heartbeats(
    gateway: Gateway, agent: AgentProcess, tmp_path: Path
) -> None:
    said = tmp_path / "notice"
    await agent.start("--spot", "--notice-url", said.as_uri(), "--notice-seconds", "60")
    await gateway.until(lambda: gateway.heartbeats)
    assert dict(gateway.hellos[0].node.labels) == {"spot": "yes"}
    assert not gateway.heartbeats[0].HasField("notice_seconds")
    said.write_text("TRUE")
    told = await gateway.until(
        lambda: next((beat for beat in gateway.heartbeats if beat.HasField("notice_seconds")), None)
    )
    assert 50 <= told.notice_seconds <= 60
