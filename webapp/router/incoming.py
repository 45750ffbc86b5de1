"""A request of a caller as a router has it, and as a replica gets it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from trainmaster.serving.http import TOKEN_HEADER
from webapp.router.cache import key_of
from webapp.serving.values import ReplicaAddress, Route, replica_token

KEY_HEADER = b"x-session"  # requests of one session go to one replica, and to one version
CONSENT = b"x-consent"  # purposes for which the caller lets the request be kept as data
REQUEST_ID = b"x-request-id"  # of the caller, or made here: labels name it
HOP = {
    b"connection",
    b"transfer-encoding",
    b"keep-alive",
    b"te",
    b"trailer",
    b"upgrade",
}  # of one connection each
_OWN = HOP | {b"host", b"authorization", b"content-length", b"expect", TOKEN_HEADER}


@dataclass(frozen=True, slots=True)
class Incoming:
    method: str
    path: str
    headers: dict[bytes, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers.get(KEY_HEADER, "")

    def cache_key(self, route: Route) -> bytes | None:
        return key_of(route, self.method, self.path, self.headers, self.body)

    @property
    def consent(self) -> str | None:
        return self.headers.get(CONSENT)

    def headers_for(self, address: ReplicaAddress) -> list[tuple[bytes, bytes]]:
        """What a replica is told: nothing of the caller's connection and token, and the token of the replica."""
        kept = [(name, value.encode("latin-1")) for name, value in self.headers.items() if name not in _OWN]
        return [*kept, (TOKEN_HEADER, replica_token(address.job_id).encode())]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
