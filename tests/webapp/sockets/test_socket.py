"""The live socket: who joins hears of what changed, also of what changed just before."""

from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from channels.testing import WebsocketCommunicator

from webapp.base.identity import new_id
from webapp.sockets import consumers, outbox, subjects
from webapp.sockets.consumers import LiveConsumer


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> str:
    """One of a kind that exists in this test only, which the member may watch."""
    monkeypatch.setitem(subjects._WATCHERS, "thing", lambda user, thing: user.username == "member")
    return f"thing:{new_id('job')}"


@pytest.fixture
async def socket() -> AsyncIterator[Any]:
    communicator = WebsocketCommunicator(LiveConsumer.as_asgi(), "/ws/live/")
    communicator.scope["user"] = SimpleNamespace(is_authenticated=True, username="member", pk=1)
    connected, _ = await communicator.connect()
    assert connected
    yield communicator
    await communicator.disconnect()


async def join(socket: Any, subject: str, **more: Any) -> None:
    await socket.send_json_to({"join": [subject], **more})
    assert await socket.receive_json_from() == {"joined": subject}


async def test_a_page_that_came_before_the_change_and_joins_after_it_is_told(
    socket: Any, subject: str
) -> None:
    await send(subject)
    await join(socket, subject, age_ms=60_000)
    assert await socket.receive_json_from() == {"subject": subject, "data": {"missed": True}}


async def test_a_page_that_came_after_the_change_is_left_alone(socket: Any, subject: str) -> None:
    await send(subject)
    await join(socket, subject, age_ms=-60_000)
    assert await socket.receive_nothing()


async def test_what_changes_after_the_joining_arrives(socket: Any, subject: str) -> None:
    await join(socket, subject, age_ms=0)
    await send(subject, {"step": 5})
    assert await socket.receive_json_from() == {"subject": subject, "data": {"step": 5}}


async def test_what_may_not_be_watched_is_refused(socket: Any, subject: str) -> None:
    socket.scope["user"].username = "outsider"
    await send(subject)
    await socket.send_json_to({"join": [subject], "age_ms": 60_000})
    assert await socket.receive_json_from() == {"refused": subject}
    assert await socket.receive_nothing()


@pytest.fixture
def numbers(monkeypatch: pytest.MonkeyPatch, subject: str) -> dict[str, str]:
    """What the page of the subject would show."""
    now = {"rate": "1 MiB/s", "done": "5 MiB", "elsewhere": "7"}
    monkeypatch.setitem(subjects._NUMBERS, "thing", lambda thing: now)
    monkeypatch.setattr(consumers, "NUMBERS_GAP_S", 0)
    return now


async def test_of_the_numbers_only_those_come_that_the_page_shows_and_that_are_new(
    socket: Any, subject: str, numbers: dict[str, str]
) -> None:
    await join(socket, subject)
    await socket.send_json_to({"shows": {subject: ["rate", "done", "unknown"]}})
    await send(subject)
    first = {"values": {"rate": "1 MiB/s", "done": "5 MiB"}}
    assert await socket.receive_json_from() == {"subject": subject, "data": first}
    numbers["done"] = "6 MiB"
    await send(subject, {"chunks": [3]})
    new = {"chunks": [3], "values": {"done": "6 MiB"}}
    assert await socket.receive_json_from() == {"subject": subject, "data": new}
    await socket.send_json_to({"shows": {subject: ["rate", "elsewhere"]}})
    await send(subject)
    assert await socket.receive_json_from() == {"subject": subject, "data": {"values": {"elsewhere": "7"}}}


async def test_numbers_of_what_may_not_be_watched_are_not_told(
    socket: Any, subject: str, numbers: dict[str, str]
) -> None:
    socket.scope["user"].username = "outsider"
    await socket.send_json_to({"shows": {subject: ["rate"]}, "join": [subject]})
    assert await socket.receive_json_from() == {"refused": subject}
    await socket.send_json_to({"shows": {subject: ["rate"]}})
    await send(subject)
    assert await socket.receive_nothing()


async def send(subject: str, data: dict[str, Any] | None = None) -> None:
    outbox.put(subject, data or {})
    assert await sync_to_async(outbox.flush)(10)


@pytest.mark.parametrize(
    "text",
    [
        "not JSON", "[" * 100_000, '"text"', "5", '{"join": 5}', '{"join": ["a\\u0000b"]}', '{"join": ["\\ud800"]}',
        '{"join": [[[]]], "leave": {}, "shows": [], "age_ms": "x"}', '{"age_ms": 1e400}', '{"shows": {"x": 5}}',
    ],
)  # fmt: skip
async def test_what_is_no_message_is_left_out_and_the_socket_lives_on(
    socket: Any, subject: str, text: str
) -> None:
    await socket.send_to(text_data=text)
    await socket.send_to(bytes_data=b"\xff\x00")
    await join(socket, subject)


async def test_a_permission_that_ends_ends_the_watching(
    socket: Any, subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await join(socket, subject)
    monkeypatch.setitem(subjects._WATCHERS, "thing", lambda user, thing: False)
    await send("person:1")
    assert await socket.receive_json_from() == {"refused": subject}
    await send(subject)
    assert await socket.receive_nothing()


async def test_a_permission_that_ends_without_a_word_ends_the_watching_in_time(
    subject: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "ASK_AGAIN_S", 0.01)
    communicator = WebsocketCommunicator(LiveConsumer.as_asgi(), "/ws/live/")
    communicator.scope["user"] = SimpleNamespace(is_authenticated=True, username="member", pk=1)
    assert (await communicator.connect())[0]
    await join(communicator, subject)
    monkeypatch.setitem(subjects._WATCHERS, "thing", lambda user, thing: False)
    assert await communicator.receive_json_from(10) == {"refused": subject}
    await communicator.disconnect()
