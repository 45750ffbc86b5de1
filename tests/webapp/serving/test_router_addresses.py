"""The router reads no address that is longer than it may be."""

from typing import Any

import pytest

from webapp.router.application import Router


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/endpoints/vision/mlp/" + "a" * 9_000, "", 414),
        ("/endpoints/vision/mlp/predict", "a" * 40_000, 414),
        ("/nothing", "", 404),
    ],
)
async def test_a_long_address_is_refused(path: str, query: str, status: int) -> None:
    sent: list[dict[str, Any]] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request"}

    scope = {
        "type": "http",
        "method": "GET",
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [],
    }
    router = Router()
    router._state = object()  # type: ignore[assignment]
    await router(scope, receive, send)
    assert sent[0]["status"] == status
