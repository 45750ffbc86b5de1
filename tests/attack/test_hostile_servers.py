"""Whatever a server does that people name, whoever asks it is done in time and holds little of the answer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest

from platform_core.errors import TrainmasterError
from platform_core.spans import Span
from tests.attack import hostile
from tests.attack.hostile import Hostile
from trainmaster import outbound as client
from trainmaster.store import open_store
from webapp.alerts import sending
from webapp.artifacts import images
from webapp.base import outbound, spans
from webapp.datasets import sources
from webapp.pages.serving import trial
from webapp.service_levels import measuring

DEADLINE = 0.4  # seconds, of every caller here
TAKEN = 8 << 20  # of one connection: what buffers of sockets on this machine hold, and a little more


@pytest.fixture(autouse=True)
def this_machine_is_allowed(settings: Any) -> None:
    settings.OUTBOUND_HOSTS = ["127.0.0.1"]


@pytest.fixture(params=hostile.BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def server(request: pytest.FixtureRequest) -> Iterator[Hostile]:
    with hostile.serving(request.param) as running:
        yield running


def webhook(server: Hostile, settings: Any) -> None:
    with patch.object(sending, "SECONDS", DEADLINE), suppress(sending.NotAccepted):
        sending._post(f"{server.url}/hook", {"text": "hello"}, "notice-1")


def image(server: Hostile, settings: Any) -> None:
    host = f"127.0.0.1:{server.port}"
    settings.IMAGE_REGISTRIES = [host]
    with patch.object(images, "SECONDS", DEADLINE):
        assert images.pinned(f"{host}/team/image:1", "alice") == f"{host}/team/image:1"


def token_of_a_registry(server: Hostile, settings: Any) -> None:
    challenge = f'Bearer realm="{server.url}/token",service="x"'
    with (
        patch.object(images, "SECONDS", DEADLINE),
        suppress(outbound.NoAnswer, ValueError, TrainmasterError),
    ):
        images._token(challenge, images.Image("x", "y", "z"))


def dataset(call: Callable[[Any], Any]) -> Callable[[Hostile, Any], None]:
    def ask(server: Hostile, settings: Any) -> None:
        with suppress(TrainmasterError):
            call(sources.opened(f"{server.url}/data", DEADLINE))

    return ask


def file_of_an_agent(server: Hostile, settings: Any) -> None:
    """Nobody gives it a deadline; what it needs comes at a rate, or it is given up."""
    with (
        patch.object(client, "WINDOW", DEADLINE),
        patch.object(client, "HEAD_DEADLINE", DEADLINE),
        suppress(TrainmasterError),
    ):
        open_store(f"{server.url}/data", silence=DEADLINE).read_range("a.bin", 0, 1 << 16)


def probe(server: Hostile, settings: Any) -> None:
    settings.PROBE_URL = f"{server.url}/healthz"
    with patch.object(measuring, "SECONDS", DEADLINE):
        measuring._web()


def endpoint(server: Hostile, settings: Any) -> None:
    with patch.object(trial, "PATIENCE", DEADLINE), patch.object(trial, "MOST_BYTES", 1 << 16):
        trial.asked(server.url, "token", "completion", "hello", "m")


def collector(server: Hostile, settings: Any) -> None:
    with patch.object(spans, "PATIENCE_SECONDS", DEADLINE), patch.object(spans, "TRIES", 1):
        exporter = spans.Exporter(f"{server.url}/v1/traces", {})
        exporter.add([Span("1" * 32, "2" * 16, "", "a span", "web", 1, 2)])
        exporter.close()


CALLERS = {
    "webhook": webhook,
    "image": image,
    "token_of_a_registry": token_of_a_registry,
    "size": dataset(lambda store: store.size("a.bin")),
    "etag": dataset(lambda store: store.etag("a.bin")),
    "exists": dataset(lambda store: store.exists("a.bin")),
    "range": dataset(lambda store: store.read_range("a.bin", 0, 1 << 16)),
    "file_of_an_agent": file_of_an_agent,
    "probe": probe,
    "endpoint": endpoint,
    "collector": collector,
}


@pytest.mark.parametrize("caller", CALLERS.values(), ids=CALLERS)
def test_whoever_asks_is_done_in_time_and_takes_little(
    caller: Callable[[Hostile, Any], None], server: Hostile, settings: Any
) -> None:
    asking = threading.Thread(target=caller, args=(server, settings), daemon=True)
    asking.start()
    asking.join(20)  # of a machine that does much else; the limit is DEADLINE
    assert not asking.is_alive()
    assert server.sent < TAKEN * max(1, server.connections)
