"""What a router knows: the endpoints, which replicas are ready, how busy they are, and what it has counted."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from platform_core.serving.comparison import Comparison
from platform_core.serving.latency import BUCKETS, bucket_of
from platform_core.serving.routing import Circuit, Target
from webapp.serving.values import (
    BUCKET_MS,
    ReplicaAddress,
    Route,
    SampledAnswer,
    ShadowCount,
    TrafficCount,
)

T = TypeVar("T")
MOST_SAMPLES = 20  # of an endpoint in one step of storing


@dataclass(slots=True)
class Upstream:
    """One attempt of a replica, as this router sees it."""

    address: ReplicaAddress
    ready: bool = False
    outstanding: int = 0
    circuit: Circuit = field(default_factory=Circuit)

    @property
    def target(self) -> Target:
        return Target(self.address.id, self.outstanding, self.circuit)


@dataclass(slots=True)
class Count:
    requests: int = 0
    errors: int = 0
    in_flight_ms: float = 0.0
    latencies: list[int] = field(default_factory=lambda: [0] * BUCKETS)


@dataclass(slots=True)
class Shadowed:
    requests: int = 0
    errors: int = 0
    latencies: list[int] = field(default_factory=lambda: [0] * BUCKETS)
    compared: int = 0
    alike: int = 0
    difference: float = 0.0


class State:
    """On the event loop alone. A new table replaces the old one at once; requests under way keep their replica."""

    def __init__(self) -> None:
        self.routes: dict[tuple[str, str], Route] = {}
        self.upstreams: dict[tuple[str, int], Upstream] = {}
        self.changed = asyncio.Condition()
        self._counts: dict[tuple[str, str, int], Count] = {}
        self._shadows: dict[tuple[str, str, int], Shadowed] = {}
        self._samples: dict[str, list[SampledAnswer]] = {}

    async def replace(self, routes: Iterable[Route]) -> None:
        self.routes = {(route.team, route.name): route for route in routes}
        addresses = [address for route in self.routes.values() for address in route.replicas]
        self.upstreams = {
            (one.id, one.attempt): self.upstreams.get((one.id, one.attempt)) or Upstream(one)
            for one in addresses
        }
        await self.announce()

    async def announce(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    def ready(self, route: Route, canary: bool) -> list[Upstream]:
        """Replicas of the canary, or all others: while a version is replaced both of them answer."""
        found = [
            self.upstreams[address.id, address.attempt]
            for address in route.replicas
            if address.canary == canary
        ]
        return [upstream for upstream in found if upstream.ready]

    def count(
        self, route: Route, version_id: str, now_ms: int, latency_ms: float, in_flight_ms: float, failed: bool
    ) -> None:
        """An answer. `in_flight_ms`: of its latency the part that was not `held`."""
        count = self._counts.setdefault(_step(route, version_id, now_ms), Count())
        count.requests += 1
        count.errors += failed
        count.in_flight_ms += in_flight_ms
        count.latencies[bucket_of(latency_ms)] += 1

    def held(self, route: Route, now_ms: int, waited_ms: float) -> None:
        """A request that waits for a replica counts while it waits: an endpoint is not idle that somebody asks."""
        count = self._counts.setdefault(_step(route, route.stable_id, now_ms), Count())
        count.in_flight_ms += waited_ms

    def count_shadow(
        self,
        route: Route,
        version_id: str,
        now_ms: int,
        latency_ms: float,
        found: Comparison | None,
        *,
        failed: bool,
    ) -> None:
        count = self._shadows.setdefault(_step(route, version_id, now_ms), Shadowed())
        count.requests += 1
        count.errors += failed
        count.latencies[bucket_of(latency_ms)] += 1
        if found is not None:
            count.compared += 1
            count.alike += found.alike
            count.difference += found.difference

    def counted(self, now_ms: int) -> list[TrafficCount]:
        """All that is not surely stored yet; what is older than two steps is forgotten."""
        self._counts = _recent(self._counts, now_ms)
        return [
            TrafficCount(*key, one.requests, one.errors, round(one.in_flight_ms), tuple(one.latencies))
            for key, one in self._counts.items()
        ]

    def shadowed(self, now_ms: int) -> list[ShadowCount]:
        """As `counted`, of the shadows."""
        self._shadows = _recent(self._shadows, now_ms)
        return [
            ShadowCount(
                *key, one.requests, one.errors, tuple(one.latencies), one.compared, one.alike, one.difference
            )
            for key, one in self._shadows.items()
        ]

    def sample(self, answer: SampledAnswer) -> None:
        """Keeps it until the next step of storing; of many only the first."""
        kept = self._samples.setdefault(answer.endpoint_id, [])
        if len(kept) < MOST_SAMPLES:
            kept.append(answer)

    def sampled(self) -> list[SampledAnswer]:
        """Those since the last call."""
        samples, self._samples = self._samples, {}
        return [answer for kept in samples.values() for answer in kept]


_Step = tuple[str, str, int]  # endpoint, version, begin of the ten seconds


def _step(route: Route, version_id: str, now_ms: int) -> _Step:
    return route.endpoint_id, version_id, now_ms - now_ms % BUCKET_MS


def _recent(counts: dict[_Step, T], now_ms: int) -> dict[_Step, T]:
    return {key: one for key, one in counts.items() if key[2] > now_ms - 3 * BUCKET_MS}
