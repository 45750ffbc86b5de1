"""What an agent says of itself and its GPUs at its own /metrics, beside what the web says of every node.

No family has the name of one of the web's: a sum over both would count twice. Used from the thread of a scrape.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from platform_core.node.description import Telemetry
from platform_core.node.observed import Observed
from platform_core.node.profiling import FIELDS

ANSWER_SECONDS = 5.0  # the loop of an agent that is well is never busy for so long


@dataclass(frozen=True, slots=True)
class Snapshot:
    hostname: str
    gpu_type: str
    connected: bool
    uploads_waiting_ms: float
    telemetry: Telemetry
    observed: Observed


def on_loop(take: Callable[[], Snapshot], loop: asyncio.AbstractEventLoop) -> Callable[[], list[Metric]]:
    """The families for a thread; `take` is called on the event loop, where all that it reads lives."""

    async def taken() -> Snapshot:
        return take()

    return lambda: list(families(asyncio.run_coroutine_threadsafe(taken(), loop).result(ANSWER_SECONDS)))


def families(snapshot: Snapshot) -> Iterator[Metric]:
    node = snapshot.hostname
    yield _of_node(
        "agent_connected", "1 while the gateway has welcomed this agent.", node, snapshot.connected
    )
    waiting = snapshot.uploads_waiting_ms / 1000
    yield _of_node("agent_uploads_waiting_seconds", "How long files have waited for a store.", node, waiting)
    attempts = _family("agent_attempts", "Attempts on this node by phase.", "node", "phase")
    for phase, count in Counter(attempt.phase.value for attempt in snapshot.observed.attempts).items():
        attempts.add_metric((node, phase), count)
    transfers = _family("agent_transfers", "Models on this node by state of their transfer.", "node", "state")
    for state, count in Counter(part.state.value for part in snapshot.observed.deployments).items():
        transfers.add_metric((node, state), count)
    yield from (attempts, transfers)
    rate_in = sum(part.rate_in for part in snapshot.observed.deployments)
    rate_out = sum(part.rate_out for part in snapshot.observed.deployments)
    yield _of_node("agent_receiving_bytes_per_second", "Rate of models that come in.", node, rate_in)
    yield _of_node("agent_sending_bytes_per_second", "Rate of models that go to other nodes.", node, rate_out)
    for field in FIELDS:
        family = _family(f"slot_{field.name}{field.suffix}", field.words, "gpu_type", "node", "slot")
        for slot in snapshot.telemetry.slots:
            if (value := slot.readings.get(field.name)) is not None:
                family.add_metric((snapshot.gpu_type, node, str(slot.index)), value)
        yield family


def _of_node(name: str, words: str, node: str, value: float) -> GaugeMetricFamily:
    family = _family(name, words, "node")
    family.add_metric((node,), value)
    return family


def _family(name: str, words: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"trainmaster_{name}", words, labels=labels)
