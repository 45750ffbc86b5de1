"""What an operator allows never leads to the platform itself, however it is named."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from platform_core.errors import TrainmasterError
from webapp.base import outbound


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.1", "0.0.0.0", "2130706433", "127.9.9.9"])
@pytest.mark.parametrize(
    "own", ["PUBLIC_URL", "ROUTER_URL", "REDIS_URL", "GATEWAY_LISTEN", "GATEWAY_METRICS_LISTEN"]
)
def test_no_other_name_leads_to_a_part_of_the_platform(host: str, own: str, settings: Any) -> None:
    settings.OUTBOUND_HOSTS = ["localhost", "127.0.0.0/8", "0.0.0.0", "localhost:4444", "127.1"]
    address = "127.0.0.1:4444"
    setattr(settings, own, f"http://{address}" if own.endswith("URL") else address)
    with pytest.raises(TrainmasterError, match="is this platform itself"):
        outbound.resolve(host, 4444)
    assert outbound.resolve("localhost", 4445) == "127.0.0.1"


def test_the_database_is_a_part_of_the_platform(settings: Any) -> None:
    settings.OUTBOUND_HOSTS = ["127.0.0.1"]
    with pytest.raises(TrainmasterError, match="is this platform itself"):
        outbound.resolve("127.0.0.1", int(settings.DATABASES["default"]["PORT"]))


def test_another_name_of_the_proxy_before_the_platform_is_asked_where_an_operator_says_so(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("198.18.0.7", 443))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: place)
    outbound._addresses_of.cache_clear()
    settings.PUBLIC_URL, settings.OUTBOUND_HOSTS = "https://platform.lan", ["git.lan", "files.lan:443"]
    with pytest.raises(TrainmasterError, match="is this platform itself"):
        outbound.resolve("git.lan", 443)
    assert outbound.resolve("files.lan", 443) == "198.18.0.7"
    outbound._addresses_of.cache_clear()
