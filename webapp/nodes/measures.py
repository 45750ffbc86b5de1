"""What is measured of nodes, for the metrics of Prometheus and for alerts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, Q, QuerySet

from platform_core.cluster.health import NodeState
from platform_core.node.description import Telemetry
from platform_core.units import SECOND_MS
from webapp.nodes import exposition, liveness
from webapp.nodes.models import Node, Slot


@dataclass(frozen=True, slots=True)
class NodeReading:
    """A node that is heard, its last telemetry (None: none within two minutes) and the delay of its uplink."""

    id: str
    hostname: str
    gpu_type: str
    telemetry: Telemetry | None
    uplink_lag_ms: int | None

    def worst_slot(self, reading: str) -> float:
        """The highest value of a reading over its slots; a reading that is 0 is left out of telemetry."""
        slots = self.telemetry.slots if self.telemetry else ()
        return max((slot.readings.get(reading, 0.0) for slot in slots), default=0.0)


def exposed() -> list[str]:
    """The families of every node and slot, in the text format of Prometheus, in pieces."""
    rows = _heard()
    texts, lags = liveness.expositions([node_id for node_id, _, _ in rows]), liveness.uplink_lags()
    lines = [
        f'trainmaster_uplink_lag_seconds{{node="{exposition.escaped(hostname)}"}} {lags[node_id] / SECOND_MS}\n'
        for node_id, hostname, _ in rows
        if node_id in lags
    ]
    known = [
        (hostname, gpu_type, text) for (_, hostname, gpu_type), text in zip(rows, texts, strict=True) if text
    ]
    head = exposition.head("uplink_lag_seconds", "Age of what a node sent last, when it arrived.")
    return [*exposition.put_together(known), head, *lines]


def _heard() -> list[tuple[str, str, str]]:
    rows = _living().exclude(state=NodeState.LOST).order_by("id")
    return list(rows.values_list("id", "hostname", "gpu_type"))


def readings() -> Iterator[NodeReading]:
    rows = _heard()
    ids = [node_id for node_id, _, _ in rows]
    telemetry, lags = liveness.telemetry(ids), liveness.uplink_lags()
    for node_id, hostname, gpu_type in rows:
        yield NodeReading(node_id, hostname, gpu_type, telemetry.get(node_id), lags.get(node_id))


def by_state() -> dict[str, int]:
    counts = dict(_living().order_by().values_list("state").annotate(nodes=Count("id")))
    return {state.value: counts.get(state.value, 0) for state in NodeState}


def slots_by_use() -> dict[tuple[str, str], int]:
    """(GPU type, held, free or out_of_service) → slots. Free ones are on nodes that take work."""
    works = Q(node__state=NodeState.READY, node__out_of_service="", out_of_service="")
    held = Q(attempt_id__isnull=False)
    rows = Slot.objects.filter(node__revoked_ms=None).order_by().values_list("node__gpu_type")
    found = rows.annotate(
        held=Count("id", filter=held),
        free=Count("id", filter=~held & works),
        out=Count("id", filter=~held & ~works),
    )
    return {
        (gpu_type, use): count
        for gpu_type, *counts in found
        for use, count in zip(("held", "free", "out_of_service"), counts, strict=True)
    }


def gateway_silence_ms(at_ms: int) -> int | None:
    """How long ago a gateway last said that it listens; None where none ever did."""
    last = liveness.last_listening()
    return None if last is None else max(0, at_ms - last)


def gateway_certificate() -> str:
    """The path of the gateway's certificate; "" where agents connect without TLS."""
    return str(settings.GATEWAY_CERTIFICATE) if settings.GATEWAY_TLS else ""


def _living() -> QuerySet[Node]:
    return Node.objects.filter(revoked_ms=None)
