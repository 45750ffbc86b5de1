"""What is measured once a minute and kept: whether the control plane is up, and how quickly the API answers."""

from __future__ import annotations

from django.conf import settings
from django.core.cache import cache
from django.db.models import F
from redis.exceptions import RedisError

from platform_core.errors import TrainmasterError
from platform_core.service_levels.availability import minute_of
from platform_core.units import DAY_MS, SECOND_MS, format_duration_ms
from trainmaster import gate, outbound
from webapp.base import stops, traffic
from webapp.base.identity import now_ms
from webapp.nodes import measures as nodes
from webapp.scheduling import measures as scheduling
from webapp.service_levels.models import Measurement

AVAILABILITY, API_LATENCY = "availability", "api_latency"
SECONDS = 5
SILENCE_MS = 60 * SECOND_MS  # of a gateway or the scheduler, from which it counts as down
KEPT_MS = 63 * DAY_MS
_TRAFFIC = "service_levels:traffic"
# Their time is that of the bytes, which the line of the caller decides.
FILE_ROUTES = frozenset({"api-upload-file", "api-upload-complete", "api-run-file"})


def measure(at_ms: int | None = None) -> None:
    """Probes the control plane and keeps what the API did since the last time. Called at least once a minute."""
    now = now_ms() if at_ms is None else at_ms
    trouble = probe(now)
    stops.probe(now, works=not trouble)
    _keep(AVAILABILITY, now, 0 if trouble else 1, 1, trouble)
    good, total = _new_requests()
    if total:
        _keep(API_LATENCY, now, good, total)
    Measurement.objects.filter(at_ms__lt=now - KEPT_MS).delete()
    stops.forget(now - KEPT_MS)


def probe(at_ms: int) -> str:
    """What of the control plane does not work, in a sentence; "" where all of it does."""
    return _web() or _silence("gateway", nodes.gateway_silence_ms(at_ms)) or _scheduler(at_ms)


def _web() -> str:
    """Asks by the address that people use, so that what stands in front of the web process is probed, too."""
    try:
        answer = outbound.request("GET", settings.PROBE_URL, resolve=gate.anywhere, deadline=SECONDS)
    except (outbound.NoAnswer, TrainmasterError) as error:
        return f"{settings.PROBE_URL} gave no answer: {error}"
    return "" if answer.status == 200 else f"{settings.PROBE_URL} answered {answer.status}"


def _scheduler(at_ms: int) -> str:
    newest = scheduling.last_round()
    return _silence("scheduler", None if newest is None else max(0, at_ms - newest.at_ms))


def _silence(part: str, silence_ms: int | None) -> str:
    if silence_ms is None:
        return f"the {part} has not been heard of"
    return f"the {part} was silent for {format_duration_ms(silence_ms)}" if silence_ms > SILENCE_MS else ""


def _keep(code: str, at_ms: int, good: int, total: int, note: str = "") -> None:
    """A minute of availability is good if all its probes were; requests add up."""
    minute = minute_of(at_ms)
    values = {"good": good, "total": total, "note": note[:200]}
    row, is_new = Measurement.objects.get_or_create(code=code, at_ms=minute, defaults=values)
    if is_new:
        return
    if code != AVAILABILITY:
        Measurement.objects.filter(pk=row.pk).update(good=F("good") + good, total=F("total") + total)
    elif not good:
        Measurement.objects.filter(pk=row.pk).update(good=0, note=note[:200])


def _new_requests() -> tuple[int, int]:
    """(quick, all) since the last call. The first call after the counters began anew has nothing to compare with."""
    try:
        lines = traffic.totals()
    except RedisError:
        return 0, 0
    counted = [line for line in lines if line.route.startswith("api-") and line.route not in FILE_ROUTES]
    now = (sum(line.quick for line in counted), sum(line.all for line in counted))
    before = cache.get(_TRAFFIC)
    cache.set(_TRAFFIC, now, None)
    if before is None or now[1] < before[1]:
        return 0, 0
    total = now[1] - before[1]
    return min(total, max(0, now[0] - before[0])), total
