"""What routers and the apps above speak of."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from django.conf import settings

from platform_core.serving.collection import Consent

BUCKET_MS = 10_000
NOTHING_COLLECTED = Consent()
ROUTES = "routes"  # the subject that routers listen to


@dataclass(frozen=True, slots=True)
class ReplicaAddress:
    id: str
    version: int  # number of the model version
    version_id: str
    canary: bool
    job_id: str
    attempt: int
    host: str
    port: int

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Route:
    """An endpoint as a router needs it. `share`: of the canary, in ten-thousandths; `shadow`: of copies for it."""

    endpoint_id: str
    team: str
    name: str
    stable_id: str
    share: int
    retry: bool
    rate_limit: int
    idle: bool  # it wants no replica until somebody asks
    replicas: tuple[ReplicaAddress, ...]
    sample_percent: int = 0
    redact: tuple[str, ...] = ()
    cache_seconds: int = 0
    shadow: int = 0
    consent: Consent = NOTHING_COLLECTED


@dataclass(frozen=True, slots=True)
class SampledAnswer:
    """As a router saw it; only its features are kept."""

    endpoint_id: str
    version_id: str
    at_ms: int
    request: bytes
    answer: bytes
    redact: tuple[str, ...] = ()
    request_id: str = ""
    collected: bool = False  # its caller agrees that it is kept as data


@dataclass(frozen=True, slots=True)
class TrafficCount:
    endpoint_id: str
    version_id: str
    at_ms: int
    requests: int
    errors: int
    in_flight_ms: int
    latencies: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ShadowCount:
    """What a shadow answered to copies of requests. `difference`: sum over those that could be compared."""

    endpoint_id: str
    version_id: str
    at_ms: int
    requests: int
    errors: int
    latencies: tuple[int, ...]
    compared: int
    alike: int
    difference: float


def replica_token(job_id: str) -> str:
    """What a replica asks of its callers: nobody has it but the platform, and the replica itself."""
    return hmac.new(settings.SECRET_KEY.encode(), f"replica:{job_id}".encode(), hashlib.sha256).hexdigest()
