"""A week of simulated traffic under the plan of production, beside fixed replicas and a reactive rule.

A fluid model in steps of ten seconds: a replica answers `CONCURRENCY` requests at once, each in SERVICE_SECONDS, and is
ready START_STEPS after it was asked for. A request whose wait is longer than SLO_SECONDS violates the objective.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from platform_core.serving import forecast
from platform_core.serving.autoscaling import Reading, ScalingPolicy, scale
from platform_core.serving.forecast import Past
from platform_core.units import DAY_MS, MINUTE_MS

STEP_MS = 10_000
DAY_STEPS = DAY_MS // STEP_MS
WEEK_STEPS = 7 * DAY_STEPS
CONCURRENCY, SERVICE_SECONDS, SLO_SECONDS = 8.0, 0.2, 1.0
START_STEPS = 6  # a minute
MOST = 20
POLICY = ScalingPolicy(minimum=1, maximum=MOST, target_concurrency=CONCURRENCY * 0.7)
SEED = 26

Decide = Callable[[int, "Service"], int]


@dataclass(slots=True)
class Service:
    """The endpoint as it was step by step."""

    ready: int
    starting: list[int] = field(default_factory=list)  # the steps at which they are ready
    queue: float = 0.0
    readings: list[Reading] = field(default_factory=list)

    @property
    def replicas(self) -> int:
        return self.ready + len(self.starting)


def compare() -> Iterator[dict[str, Any]]:
    for name, load in LOADS.items():
        arrivals = load(random.Random(SEED))
        peak = max(sum(arrivals[at : at + 6]) / 60 for at in range(WEEK_STEPS, 2 * WEEK_STEPS, 6))
        mean = sum(arrivals[WEEK_STEPS:]) / WEEK_STEPS / 10
        for policy, decide in (
            ("ours", ours),
            ("ours without forecast", without_forecast),
            ("reactive", reactive),
            ("fixed at the peak", fixed(peak)),
            ("fixed at twice the mean", fixed(2 * mean)),
        ):
            yield {"measure": "autoscaler", "load": name, "policy": policy, **simulate(arrivals, decide)}


def simulate(arrivals: Sequence[float], decide: Decide) -> dict[str, float]:
    """Figures of the second week; the first one is the past that a forecast needs."""
    service = Service(ready=max(1, decide(0, Service(1))))
    late = requests = replica_steps = 0.0
    for step, arriving in enumerate(arrivals):
        due = [at for at in service.starting if at <= step]
        service.ready += len(due)
        service.starting = [at for at in service.starting if at > step]
        wait = _serve(service, step, arriving)
        if step >= WEEK_STEPS:
            requests += arriving
            late += arriving if wait > SLO_SECONDS else 0.0
            replica_steps += service.replicas
        _resize(service, step, decide(step + 1, service))
    return {
        "slo_violations_percent": round(100 * late / requests, 3),
        "replica_hours": round(replica_steps * STEP_MS / 3_600_000, 1),
    }


def _serve(service: Service, step: int, arriving: float) -> float:
    """The seconds that those who arrive now wait on the average."""
    per_second = service.ready * CONCURRENCY / SERVICE_SECONDS
    capacity = per_second * STEP_MS / 1_000
    answered = min(capacity, service.queue + arriving)
    before, service.queue = service.queue, service.queue + arriving - answered
    waiting = (before + service.queue) / 2
    wait = waiting / per_second
    in_flight = answered / (STEP_MS / 1_000) * SERVICE_SECONDS + waiting
    p99_ms = (SERVICE_SECONDS + wait) * 1_000
    service.readings.append(Reading((step + 1) * STEP_MS, in_flight, round(arriving), p99_ms))
    return wait


def _resize(service: Service, step: int, wanted: int) -> None:
    while service.replicas < wanted:
        service.starting.append(step + START_STEPS)
    while service.replicas > max(1, wanted):
        if service.starting:
            service.starting.pop()
        else:
            service.ready -= 1


def ours(step: int, service: Service) -> int:
    return scale(
        POLICY, _recent(service), service.replicas, step * STEP_MS, _expected(step, service)
    ).replicas


def without_forecast(step: int, service: Service) -> int:
    return scale(POLICY, _recent(service), service.replicas, step * STEP_MS).replicas


def _recent(service: Service) -> list[Reading]:
    return service.readings[-(POLICY.down_after_ms // STEP_MS) :]


def _expected(step: int, service: Service) -> float:
    now_ms, days = step * STEP_MS, []
    for start, end in forecast.windows(now_ms):
        demand = _demand(service, start, end)
        cut = forecast.BEFORE_MS // STEP_MS
        days.append(Past(demand[:cut], demand[cut:]))
    return forecast.expected(_demand(service, now_ms - forecast.BEFORE_MS, now_ms), days)


def _demand(service: Service, start_ms: int, end_ms: int) -> list[float]:
    chosen = service.readings[max(0, start_ms // STEP_MS) : max(0, end_ms // STEP_MS)]
    return [reading.in_flight for reading in chosen]


def fixed(per_second: float) -> Decide:
    """Always as many as answer so many requests a second."""
    replicas = min(MOST, math.ceil(per_second * SERVICE_SECONDS / CONCURRENCY))
    return lambda step, service: replicas


def reactive(step: int, service: Service) -> int:
    """The rule of common autoscalers: utilisation of the last minute to a target, fewer only after five minutes."""
    minute = service.readings[-6:]
    if not minute:
        return 1
    wished = math.ceil(sum(one.in_flight for one in minute) / len(minute) / POLICY.target_concurrency - 1e-9)
    if wished < service.replicas:
        past = service.readings[-(5 * MINUTE_MS // STEP_MS) :]
        highest = max(one.in_flight for one in past) / POLICY.target_concurrency
        wished = min(service.replicas, max(wished, math.ceil(highest)))
    return max(1, min(MOST, wished))


def daily(rng: random.Random) -> list[float]:
    """Two weeks of office hours, with a steep morning; weekends have a third."""
    return [_poisson(rng, _office(step) * 10) for step in range(2 * WEEK_STEPS)]


def bursts(rng: random.Random) -> list[float]:
    """The same with a burst of three times for two minutes, ten times a day, at times that nothing announces."""
    begins = sorted(rng.randrange(2 * WEEK_STEPS) for _ in range(140))
    high = {step for begin in begins for step in range(begin, begin + 12)}
    return [
        _poisson(rng, (_office(step) * 0.5 * (3 if step in high else 1)) * 10)
        for step in range(2 * WEEK_STEPS)
    ]


def hourly_jobs(rng: random.Random) -> list[float]:
    """Little all day, and a batch of callers at each full hour for five minutes."""
    return [_poisson(rng, (300.0 if step % 360 < 30 else 20.0) * 10) for step in range(2 * WEEK_STEPS)]


LOADS: dict[str, Callable[[random.Random], list[float]]] = {
    "office hours": daily,
    "bursts": bursts,
    "every hour": hourly_jobs,
}


def _office(step: int) -> float:
    """Requests a second."""
    day, hour = divmod(step / 360, 24)
    weekend = 1 / 3 if int(day) % 7 >= 5 else 1.0
    ramp = min(1.0, max(0.0, (hour - 8.9) / 0.1)) * min(1.0, max(0.0, (18.5 - hour) / 0.5))
    return 20 + weekend * 400 * ramp


def _poisson(rng: random.Random, mean: float) -> float:
    return max(0.0, round(rng.gauss(mean, math.sqrt(mean))))
