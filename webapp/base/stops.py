"""Stops that operators made: written by the part that ends in order, ended by the probe of the control plane."""

from __future__ import annotations

import logging
import threading
from typing import Any

from django.db import DatabaseError, connection
from django.db.models import Q

from platform_core.service_levels.planned_stops import QUIET_MS, Stop, is_quiet, probed
from webapp.base.identity import now_ms
from webapp.base.models import PlannedStop

log = logging.getLogger(__name__)
_WRITING: list[threading.Thread] = []
WORKER, GATEWAY, ROUTER = "worker", "gateway", "router"


def announce(part: str) -> None:
    """Called while a part shuts down, which no missing database may hold up."""
    try:
        PlannedStop.objects.create(part=part, at_ms=now_ms())
    except DatabaseError as error:
        log.warning("the end of this %s could not be written down as planned: %s", part, error)


def worker_ends(**_: Any) -> None:
    """Called in a handler of a signal of the operating system, so the connection is that of another thread."""
    thread = threading.Thread(target=_announce_worker, name="planned-stop")
    _WRITING.append(thread)
    thread.start()


def written() -> None:
    """Returns when what is being written down is."""
    while _WRITING:
        _WRITING.pop().join()


def _announce_worker() -> None:
    try:
        announce(WORKER)
    finally:
        connection.close()


def is_planned(part: str, at_ms: int) -> bool:
    recent = PlannedStop.objects.filter(part=part, over_ms=None, at_ms__gt=at_ms - QUIET_MS)
    return any(is_quiet(_stop(row), at_ms) for row in recent)


def probe(at_ms: int, *, works: bool) -> None:
    """What a probe of the control plane says about the stops that are not over."""
    for row in PlannedStop.objects.filter(over_ms=None):
        after = probed(_stop(row), at_ms, works)
        PlannedStop.objects.filter(pk=row.pk, over_ms=None).update(
            back_ms=after.back_ms, over_ms=after.over_ms
        )


def between(from_ms: int, to_ms: int) -> list[Stop]:
    """Those that were in this time, the oldest first."""
    rows = PlannedStop.objects.filter(Q(over_ms=None) | Q(over_ms__gte=from_ms), at_ms__lt=to_ms)
    return [_stop(row) for row in rows.order_by("at_ms")]


def forget(before_ms: int) -> None:
    PlannedStop.objects.filter(over_ms__lt=before_ms).delete()


def _stop(row: PlannedStop) -> Stop:
    return Stop(row.at_ms, row.back_ms, row.over_ms)
