"""Answers of deterministic models by the content of their requests, in the memory of one router."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from webapp.serving.values import Route

LARGEST = 1 << 20  # of an answer that is kept
MOST_BYTES = 64 << 20
_SHAPING = (
    b"content-type",
    b"inference-header-content-length",
    b"accept",
)  # headers that the answer may depend on

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Kept:
    until: float
    headers: Headers
    body: bytes


@dataclass(slots=True)
class Cache:
    _kept: OrderedDict[bytes, Kept] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def get(self, key: bytes) -> Kept | None:
        found = self._kept.get(key)
        if found is None:
            return None
        if found.until < time.monotonic():
            self._drop(key)
            return None
        self._kept.move_to_end(key)
        return found

    def put(self, key: bytes, headers: Headers, body: bytes, seconds: int) -> None:
        """The answers that were asked for longest ago make room."""
        if len(body) > LARGEST:
            return
        if key in self._kept:
            self._drop(key)
        self._kept[key] = Kept(time.monotonic() + seconds, headers, body)
        self._bytes += len(body)
        while self._bytes > MOST_BYTES:
            self._drop(next(iter(self._kept)))

    def _drop(self, key: bytes) -> None:
        self._bytes -= len(self._kept.pop(key).body)


def key_of(route: Route, method: str, path: str, headers: dict[bytes, str], body: bytes) -> bytes | None:
    """None for what is not kept: other calls than predictions, and all while a canary is judged by its requests."""
    if (
        not route.cache_seconds
        or route.share
        or route.shadow
        or method != "POST"
        or not path.endswith(("/predict", "/infer"))
    ):
        return None
    shaping = "\0".join(headers.get(name, "") for name in _SHAPING)
    head = f"{route.endpoint_id}\0{route.stable_id}\0{path}\0{shaping}\0".encode()
    return hashlib.blake2b(head + body, digest_size=32).digest()
