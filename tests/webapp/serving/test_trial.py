"""A request from the page of an endpoint goes to the router with a pass of the person who looks at it."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from django.test import Client

from tests.webapp.conftest import Cast
from tests.webapp.world import World, build
from webapp.accounts import tokens
from webapp.accounts.models import User
from webapp.accounts.queries import actor_of
from webapp.router import callers

Browser = Callable[[User], Client]


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)


class Router(HTTPServer):
    """Answers as it is told to, and keeps what it was asked."""

    status, document = 200, {}  # type: tuple[int, dict[str, Any]]
    asked: list[tuple[str, str, dict[str, Any]]]


class Answer(BaseHTTPRequestHandler):
    server: Router

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, self.headers["Authorization"].removeprefix("Bearer "), body))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(json.dumps(self.server.document).encode())

    def log_message(self, *parts: object) -> None: ...


@pytest.fixture
def router(settings: Any) -> Iterator[Router]:
    server = Router(("127.0.0.1", 0), Answer)
    server.asked = []
    settings.ROUTER_URL = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_text_is_completed_on_the_page(cast: Cast, world: World, browser: Browser, router: Router) -> None:
    router.document = {"choices": [{"text": "main() -> <None>:"}]}
    address = f"/serving/vision/{world.endpoint}/try/"
    page = browser(cast.viewer).post(address, {"kind": "completion", "input": "def "}).content.decode()
    assert "def <mark>main() -&gt; &lt;None&gt;:</mark>" in page
    [(path, token, body)] = router.asked
    assert (path, body["prompt"]) == (f"/endpoints/vision/{world.endpoint}/v1/completions", "def ")
    person = tokens.holder(token)
    assert person == cast.viewer
    assert callers.may_call(actor_of(person), "vision")


def test_a_row_is_predicted_and_a_refusal_is_shown(
    cast: Cast, world: World, browser: Browser, router: Router
) -> None:
    address, form = f"/serving/vision/{world.endpoint}/try/", {"kind": "prediction", "input": "[1, 2]"}
    router.document = {"outputs": [3], "version": "1"}
    page = browser(cast.member).post(address, form).content.decode()
    assert "&quot;outputs&quot;: [" in page
    assert router.asked[-1][2] == {"inputs": [[1, 2]]}
    router.status, router.document = 429, {"error": "the queue is full"}
    assert "the queue is full" in browser(cast.member).post(address, form).content.decode()
    assert "must be JSON" in browser(cast.member).post(address, form | {"input": "1, 2"}).content.decode()
    assert len(router.asked) == 2


def test_a_pass_that_is_forged_or_of_somebody_who_left_is_none(cast: Cast) -> None:
    good = tokens.create_pass(actor_of(cast.viewer))
    assert tokens.holder(good) == cast.viewer
    assert tokens.holder(good[:-2] + "xx") is None
    User.objects.filter(pk=cast.viewer.pk).update(is_active=False)
    assert tokens.holder(good) is None


def test_a_router_that_does_not_answer_is_told(
    cast: Cast, world: World, browser: Browser, settings: Any, unused_tcp_port: int
) -> None:
    settings.ROUTER_URL = f"http://127.0.0.1:{unused_tcp_port}"
    page = browser(cast.viewer).post(
        f"/serving/vision/{world.endpoint}/try/", {"kind": "completion", "input": "a"}
    )
    assert "The router did not answer: 127.0.0.1 did not answer: ConnectError." in page.content.decode()
