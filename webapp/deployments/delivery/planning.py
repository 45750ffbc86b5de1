"""Who will receive from whom, and how long it would take with each strategy: said before anything moves."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from django.conf import settings

from platform_core.distribution.planning import estimate, strategies
from platform_core.distribution.planning.bounds import Rates
from platform_core.distribution.planning.estimate import Conditions, Estimate
from platform_core.distribution.planning.forest import Forest
from platform_core.distribution.planning.observed_rates import Basis
from platform_core.distribution.planning.observed_rates import Rates as ObservedRates
from platform_core.distribution.planning.routes import Place
from platform_core.errors import TrainmasterError
from platform_core.units import plural
from webapp.deployments import queries
from webapp.nodes import queries as clusters

STRATEGIES = (strategies.AUTO, *strategies.NAMES)


@dataclass(frozen=True, slots=True)
class Plan:
    """`estimates`: of every strategy, the quickest first, at the likely rate on each link.

    `low_ms` and `high_ms` bound the chosen one, by the rates that deployments had or, where none tells, by the link.
    """

    strategy: str
    forest: Forest
    estimates: tuple[Estimate, ...]
    rates: ObservedRates
    low_ms: int
    high_ms: int
    bound_ms: int  # by the links as they should be, not by what was seen of them
    alone: tuple[Place, ...]  # nodes without the agent, each of which pulls a copy of its own
    capped: tuple[str, ...]  # nodes whose own caps are below the rate

    @property
    def rate(self) -> int:
        return self.rates.likely

    @property
    def basis(self) -> str:
        """Where the rates are from, as a phrase: "measured on 3 deployments"."""
        if self.rates.basis is Basis.MEASURED:
            return f"measured on {plural(self.rates.deployments, 'deployment')}"
        return "by the configured link; no deployment was long enough to measure"

    @property
    def chosen(self) -> Estimate:
        return next(each for each in self.estimates if each.strategy == self.strategy)


def plan(
    places: Sequence[Place], total_bytes: int, piece_size: int, strategy: str, cap: float = math.inf
) -> Plan:
    """`strategy` is one of STRATEGIES, `auto` what the estimates choose; `cap`: bytes per second on each node."""
    if strategy not in STRATEGIES:
        why = f'"{strategy}" is none of {", ".join(STRATEGIES)}'
        raise TrainmasterError("request_invalid", what="strategy", why=why)
    link = settings.NETWORK_BYTES_PER_SECOND
    wire = int(min(link, cap))
    rates = queries.usual_rates(wire)
    alone = clusters.without_agent([place.node for place in places])
    there = tuple(place for place in places if place.node not in alone)
    caps = _caps(there, link)

    def at(rate: int) -> tuple[Estimate, ...]:
        """With the time that passes whatever the size is."""
        found = estimate.compare(there, Conditions(total_bytes, piece_size, rate, rate, caps=caps))
        return tuple(replace(each, time_ms=each.time_ms + rates.fixed_ms) for each in found)

    likely = at(rates.likely)
    if strategy == strategies.AUTO:
        strategy = estimate.choose(
            there, Conditions(total_bytes, piece_size, rates.likely, rates.likely, caps=caps)
        )
    quick, slow = (
        next(e.time_ms for e in at(rate) if e.strategy == strategy) for rate in (rates.high, rates.low)
    )
    return Plan(
        strategy=strategy,
        forest=strategies.grow(strategy, there),
        estimates=likely,
        rates=rates,
        low_ms=quick,
        high_ms=slow,
        bound_ms=estimate.bound_ms(there, Conditions(total_bytes, piece_size, wire, wire, caps=caps)),
        capped=tuple(node for node, cap in caps.items() if min(cap.up, cap.down) < rates.likely),
        alone=tuple(place for place in places if place.node in alone),
    )


def _caps(places: Sequence[Place], link: int) -> dict[str, Rates]:
    by_node = clusters.transfer_caps([place.node for place in places])
    return {node: Rates(up=gives or link, down=takes or link) for node, (takes, gives) in by_node.items()}


def short_of_room(places: Sequence[Place], total_bytes: int) -> list[tuple[str, int]]:
    """Hostnames of those that last told of less free space, and how much; the shortest first. They may still make room
    for it, or hold part of it already: what counts is what a node finds before it begins."""
    telemetry = clusters.telemetry([place.node for place in places])
    short = {
        node: reading.disk_free_bytes
        for node, reading in telemetry.items()
        if reading.disk_free_bytes < total_bytes
    }
    names = clusters.hostnames(short)
    return sorted(((names[node], free) for node, free in short.items()), key=lambda one: (one[1], one[0]))
