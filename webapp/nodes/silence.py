"""How long each node has been silent, by the clock of this machine since its boot, which nobody can set.

What gateways record in Redis is taken for changed or not; their clocks do not matter. What was seen, and when, is kept
there for each boot of each machine, so that all processes of a machine go on with it.
"""

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import astuple, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil
from django.conf import settings

from platform_core.cluster import leases
from platform_core.cluster.leases import Sighting
from webapp.nodes.liveness import ACKNOWLEDGED, EAR, EAR_GAP_MS, client

KEPT_SECONDS = 7 * 24 * 3600
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_EAR_LAST, _EAR_SINCE = ":last", ":since"  # beside the ids of nodes


@dataclass(frozen=True, slots=True)
class Heard:
    """What the newest look says of one node."""

    again: bool  # a heartbeat was recorded since the look before
    quiet_ms: int
    lease_ended: bool


def boot_ms() -> int:
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime_ns(clock) // 1_000_000


def look(node_ids: Iterable[str], clock: Callable[[], int] = boot_ms) -> dict[str, Heard] | None:
    """What is heard of these nodes; None while no gateway listens.

    After a time in which none did, silence counts from when one does again. Where Redis itself began anew, everything
    counts as changed: what it lost may have been acknowledged.
    """
    key = f"cluster:sightings:{_boot_id()}"
    before_ms = clock()
    pipe = client().pipeline(transaction=False)
    for each in (ACKNOWLEDGED, EAR, key):
        pipe.hgetall(each)
    pipe.info("server")
    records, ear, kept, server = pipe.execute()
    read_ms = clock()
    known = {name.decode(): Sighting(*json.loads(text)) for name, text in kept.items()}
    texts = {node: records.get(node.encode(), b"").decode() for node in node_ids}
    moments = {name: ear.get(name[1:].encode(), b"").decode() for name in (_EAR_LAST, _EAR_SINCE)}
    seen = {
        name: leases.sight(known.get(name), f"{text} {server['run_id']}", _lost_ms(text), read_ms)
        for name, text in (texts | moments).items()
    }
    if changed := {name: json.dumps(astuple(each)) for name, each in seen.items() if each != known.get(name)}:
        client().hset(key, mapping=dict[Any, Any](changed))
        client().expire(key, KEPT_SECONDS)
    if ear and leases.quiet_ms(seen[_EAR_LAST], before_ms) > EAR_GAP_MS:
        return None
    longest_ms = leases.quiet_ms(seen[_EAR_SINCE], before_ms) if ear else before_ms
    return {node: _heard(seen[node], before_ms, longest_ms) for node in texts}


def _heard(sighting: Sighting, before_ms: int, longest_ms: int) -> Heard:
    quiet_ms = leases.quiet_ms(sighting, before_ms)
    return Heard(sighting.heard, min(quiet_ms, longest_ms), leases.has_ended(sighting, before_ms))


def _lost_ms(record: str) -> int:
    """Of what liveness.py records of a node."""
    lost_ms, _, token = record.partition(" ")
    return int(lost_ms) if token else settings.LOST_AFTER_SECONDS * 1000


@cache
def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return str(int(psutil.boot_time()))
