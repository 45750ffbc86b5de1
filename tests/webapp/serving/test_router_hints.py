"""Routers are told of new routes when they are committed; reading them by the clock is what remains without Valkey."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.webapp.conftest import Cast
from tests.webapp.world import World, build
from webapp.accounts.queries import actor_of
from webapp.router import duties, hints
from webapp.router.state import State
from webapp.serving import services
from webapp.serving.values import ROUTES
from webapp.sockets import outbox


@pytest.fixture
def world(cast: Cast) -> World:
    return build(cast)


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    subjects: list[str] = []
    monkeypatch.setattr(outbox, "put", lambda subject, data: subjects.append(subject))
    return subjects


Verb = Callable[[Any, str], Any]


@pytest.mark.parametrize(
    "verb",
    [
        lambda actor, name: services.roll_back(actor, "vision", name),
        lambda actor, name: services.promote(actor, "vision", name),
        lambda actor, name: services.scale(actor, "vision", name, 1, 2),
        lambda actor, name: services.stop(actor, "vision", name),
    ],
    ids=["roll back", "promote", "scale", "stop"],
)
def test_what_changes_an_endpoint_tells_the_routers_after_the_commit(
    cast: Cast, world: World, published: list[str], django_capture_on_commit_callbacks: Any, verb: Verb
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        verb(actor_of(cast.owner), world.endpoint)
        assert ROUTES not in published
    assert ROUTES in published


async def told_until(done: asyncio.Event) -> None:
    """Says it again until somebody has heard: who subscribes a moment later misses the first one."""
    async with asyncio.timeout(30):
        while not done.is_set():
            outbox.put(ROUTES, {})
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), 0.05)


async def test_a_hint_calls_at_once_and_an_end_leaves_the_group() -> None:
    heard = asyncio.Event()

    async def changed() -> None:
        heard.set()

    task = asyncio.create_task(hints.listen(changed))
    await told_until(heard)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def test_an_older_reading_never_replaces_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, state = [], State()
    duty = duties.Duties(state)
    running = 0

    async def read(call: Any) -> list[Any]:
        nonlocal running
        running += 1
        assert running == 1, "two readings at once"
        begun.append(call)
        await asyncio.sleep(0)
        running -= 1
        return []

    monkeypatch.setattr(duties, "_in_thread", read)
    await asyncio.gather(duty._reload(), duty._reload(), duty._reload())
    assert len(begun) == 3


async def test_a_router_ends_when_it_is_asked_to_though_valkey_has_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits = asyncio.Event()

    class Gone:
        async def new_channel(self, prefix: str) -> str:
            return f"{prefix}!1"

        async def group_add(self, name: str, channel: str) -> None: ...

        async def receive(self, channel: str) -> None:
            waits.set()
            await asyncio.Event().wait()

        async def group_discard(self, name: str, channel: str) -> None:
            raise ConnectionError("nobody listens there any more")

    monkeypatch.setattr(hints, "get_channel_layer", Gone)
    ends = duties.Duties(State())
    ends._tasks = [asyncio.create_task(duties._for_ever(ends._listen, 0.01))]
    await waits.wait()
    async with asyncio.timeout(5):
        await ends.end()
