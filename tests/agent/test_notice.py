"""Where the agent looks for word that its machine is taken away."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.probes.notice import is_given
from tests.agent.conftest import AgentProcess
from tests.support.gateway import Gateway


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
