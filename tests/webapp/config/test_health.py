"""A server behind the platform that answers nothing: pages say so in time, and the health check sees it."""

import asyncio
import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import OperationalError
from django.test import Client

from tests.support.databases import provide
from tests.webapp.conftest import Cast
from webapp.accounts.models import User
from webapp.base import problems
from webapp.config import health
from webapp.config.patience import Patience
from webapp.nodes import liveness


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SECONDS", 1)
    monkeypatch.setattr(health, "_last", (0.0, ()))


@contextmanager
def frozen(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_the_health_check_looks_at_both_servers(db: None) -> None:
    answer = Client().get("/healthz")
    assert (answer.status_code, answer.content) == (200, b"ok\n")
    assert Client().get("/livez").status_code == 200


def test_a_frozen_database_is_seen_and_the_process_still_lives(db: None) -> None:
    server = provide().process
    assert server is not None
    with frozen(server.pid):
        answer = Client().get("/healthz")
        assert Client().get("/livez").status_code == 200
    assert (answer.status_code, b"The database" in answer.content) == (503, True)


def test_a_frozen_valkey_is_seen_and_pages_say_so(
    cast: Cast, browser: Callable[[User], Client], settings: LazySettings
) -> None:
    client = browser(cast.owner)
    caches = settings.CACHES["default"]
    settings.CACHES = {
        "default": caches | {"OPTIONS": {"socket_timeout": 0.2, "socket_connect_timeout": 0.2}}
    }
    with frozen(liveness.client().info("server")["process_id"]):
        assert client.get("/healthz").status_code == 503
        login = Client().post("/login/", {"username": "alice", "password": "x"})
    assert (login.status_code, "The cache is not available" in login.content.decode()) == (503, True)


def test_a_database_that_went_away_is_a_503_with_a_sentence(
    cast: Cast, browser: Callable[[User], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    body = problems.document(OperationalError("server closed the connection at 10.0.0.7"))
    assert (body["status"], body["detail"]) == (
        503,
        "The database is not available just now; try again shortly",
    )


async def test_a_request_that_nobody_answers_gets_a_503() -> None:
    async def silent(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await asyncio.Event().wait()

    for path, kind in (("/jobs/", "text/plain"), ("/api/v1/me", "application/problem+json")):
        start, body = await ask(Patience(silent, 0.01), path)
        assert start["status"] == 503
        assert dict(start["headers"])[b"content-type"].decode().startswith(kind)
        assert "not available" in body
        assert kind == "text/plain" or json.loads(body)["code"] == "unavailable"


async def test_an_answer_that_has_begun_may_take_its_time() -> None:
    waited = asyncio.Event()

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        asyncio.get_running_loop().call_later(0.05, waited.set)
        await waited.wait()
        await send({"type": "http.response.body", "body": b"whole"})

    start, body = await ask(Patience(slow, 0.01), "/jobs/")
    assert (start["status"], body) == (200, "whole")


async def ask(application: Any, path: str) -> tuple[dict[str, Any], str]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await application({"type": "http", "path": path}, receive, send)
    return sent[0], b"".join(message.get("body", b"") for message in sent).decode()
