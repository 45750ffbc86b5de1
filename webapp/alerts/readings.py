"""The values of all measures now: one function for each, over the reads of the apps below."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509
from django.conf import settings
from django.db import connection

from platform_core.alerting.builtin import BY_CODE
from platform_core.alerting.measures import WaitClass
from platform_core.datasets.staleness import of_promise, overdue
from platform_core.service_levels.burning import FAST, SLOW, Burn
from platform_core.units import DAY_MS, MINUTE_MS, plural
from webapp.alerts import readings_of_endpoints, readings_of_jobs
from webapp.alerts.values import Read, Reading
from webapp.artifacts import queries as artifacts
from webapp.base import pulse, rounds, stops
from webapp.checkpoints import measures as checkpoints
from webapp.datasets import queries as datasets
from webapp.events import queries as events
from webapp.jobs import measures as jobs
from webapp.nodes import measures as nodes
from webapp.scheduling import measures as scheduling
from webapp.service_levels import queries as service_levels
from webapp.serving import measures as endpoint_measures
from webapp.storage import queries as storage

log = logging.getLogger(__name__)
LEAST_ENDED = 10  # fewer jobs or checkpoints in a day make no percentage
SAMPLED_WITHIN_MS = 2 * MINUTE_MS


def take(at_ms: int, wanted: Collection[str]) -> dict[str, list[Reading] | None]:
    """The readings of these measures; None for a measure that could not be read, which is logged."""
    found: dict[str, list[Reading] | None] = {}
    for name in wanted:
        try:
            found[name] = [_finite(reading) for reading in READS[name](at_ms)]
        except Exception:  # one broken measure must not blind the others
            log.exception("measure %s could not be read", name)
            found[name] = None
    return found


def _finite(reading: Reading) -> Reading:
    return reading if reading.value is None or math.isfinite(reading.value) else replace(reading, value=None)


def _queue_wait(waits: WaitClass, code: str) -> Read:
    def read(at_ms: int) -> Iterator[Reading]:
        waiting = jobs.waits(at_ms, waits.priorities)
        limit_ms = round(BY_CODE[code].condition.limit)
        long = jobs.waits(at_ms, waits.priorities, limit_ms)
        for team, found in waiting.items():
            many = long[team].jobs if team in long else 0
            detail = f"{plural(many, 'job')} wait{'s' if many == 1 else ''}"
            yield Reading(found.longest_ms, team, team, team, detail)

    return read


def _storage(at_ms: int) -> Iterator[Reading]:
    for team, used in artifacts.uploaded_bytes().items():
        yield Reading(100 * used / settings.TEAM_UPLOAD_LIMIT_BYTES, team, team, team)


def _dataset_age(at_ms: int) -> Iterator[Reading]:
    oldest: dict[str, Reading] = {}
    for (team, name), created in datasets.version_times().items():
        intervals = overdue(created, at_ms)
        if intervals is None or (team in oldest and (oldest[team].value or 0) >= 100 * intervals):
            continue
        days = plural((at_ms - max(created)) // DAY_MS, "day")
        oldest[team] = Reading(
            100 * intervals, team, team, team, f"the newest version of {name} is {days} old"
        )
    yield from oldest.values()


def _dataset_freshness(at_ms: int) -> Iterator[Reading]:
    latest: dict[str, Reading] = {}
    for one in datasets.promised():
        percent = 100 * of_promise(one.newest_ms, one.fresh_minutes, at_ms)
        if one.team not in latest or percent > (latest[one.team].value or 0):
            age, promise = (
                plural((at_ms - one.newest_ms) // MINUTE_MS, "minute"),
                plural(one.fresh_minutes, "minute"),
            )
            detail = f"the newest version of {one.name} is {age} old, and {promise} were promised"
            why = f"; the last look failed: {one.error}" if one.error else ""
            latest[one.team] = Reading(percent, one.team, one.team, one.team, detail + why)
    yield from latest.values()


def _storage_cost(at_ms: int) -> Iterator[Reading]:
    for one in storage.teams(None):
        if one.budget:
            yield Reading(100 * one.month_micro_dollars / one.budget, one.team, one.team, one.team)


def _damaged_files(at_ms: int) -> Iterator[Reading]:
    lost = storage.damaged_files()
    for team in artifacts.uploaded_bytes().keys() | lost.keys():
        names = sorted({row.name for row in lost.get(team, [])})
        yield Reading(len(lost.get(team, [])), team, team, team, ", ".join(names[:3]))


def _cluster_utilisation(at_ms: int) -> Iterator[Reading]:
    use = jobs.cluster_use(at_ms - SAMPLED_WITHIN_MS)
    if use is None or not use.slots:
        yield Reading(None)
    elif use.held or use.queued_jobs:
        yield Reading(None if use.used is None else 100 * use.used / use.slots)


def _job_failures(at_ms: int) -> Iterator[Reading]:
    ended = jobs.ended(at_ms - DAY_MS, at_ms)
    if ended.all >= LEAST_ENDED:
        causes = sorted(ended.failed_by_end.items(), key=lambda pair: (-pair[1], pair[0]))
        detail = ", ".join(f"{count} by {end or 'no known end'}" for end, count in causes[:3])
        yield Reading(100 * ended.failed / ended.all, detail=f"{ended.failed} of {ended.all} ({detail})")


def _checkpoint_failures(at_ms: int) -> Iterator[Reading]:
    saves = checkpoints.saves(at_ms - DAY_MS, at_ms)
    if saves.all >= LEAST_ENDED:
        counts = (
            (saves.refused, "not written"),
            (saves.damaged, "damaged"),
            (saves.incomplete, "incomplete"),
        )
        detail = f"{', '.join(f'{count} {what}' for count, what in counts if count)} of {saves.all}"
        yield Reading(100 * saves.failed / saves.all, detail=detail)


def _node_failures(at_ms: int) -> Iterator[Reading]:
    lost = events.since("NodeLost", "node", at_ms - DAY_MS)
    names = [str(data.get("name") or node) for node, data in lost]
    shown = ", ".join(sorted(set(names))[:5])
    yield Reading(len(lost), detail=shown)


def _of_nodes(value: Callable[[nodes.NodeReading], float | None]) -> Read:
    def read(at_ms: int) -> Iterator[Reading]:
        for node in nodes.readings():
            found = value(node)
            if found is not None:
                yield Reading(found, node.id, node.hostname)

    return read


def _worst(reading: str) -> Callable[[nodes.NodeReading], float | None]:
    return lambda node: node.worst_slot(reading) if node.telemetry else None


def _clock_offset(node: nodes.NodeReading) -> float | None:
    return abs(node.telemetry.readings.get("clock_offset_ms", 0.0)) if node.telemetry else None


def _uploads_waiting(node: nodes.NodeReading) -> float | None:
    return node.telemetry.readings.get("uploads_waiting_ms", 0.0) if node.telemetry else None


def _unless_stopped(part: str, read: Read) -> Read:
    """Nobody is told that a part is silent which an operator has just stopped: it is about to start again."""

    def read_unless_stopped(at_ms: int) -> Iterable[Reading]:
        return [Reading(None)] if stops.is_planned(part, at_ms) else read(at_ms)

    return read_unless_stopped


def _round_age(at_ms: int) -> Iterator[Reading]:
    newest = scheduling.last_round()
    yield Reading(None if newest is None else max(0, at_ms - newest.at_ms))


def _leaderless(at_ms: int) -> Iterator[Reading]:
    """A round takes and releases the lease, so nobody leads between two: the time since the last round counts."""
    newest = scheduling.last_round()
    if newest is None:
        yield Reading(None)
    else:
        yield Reading(0 if scheduling.is_led() else max(0, at_ms - newest.at_ms))


def _gateway_silence(at_ms: int) -> Iterator[Reading]:
    yield Reading(nodes.gateway_silence_ms(at_ms))


def _worker_silence(at_ms: int) -> Iterator[Reading]:
    """Of the program that has been silent for longest."""
    yield Reading(max((max(0, at_ms - each.at_ms) for each in pulse.last().values()), default=None))


def _router_silence(at_ms: int) -> Iterator[Reading]:
    """Without an endpoint nobody needs a router."""
    if endpoint_measures.loads(at_ms):
        yield Reading(pulse.silence_ms(stops.ROUTER, at_ms))


def _task_lag(at_ms: int) -> Iterator[Reading]:
    yield Reading(max((each.lag_ms for each in pulse.last().values()), default=None))


def _failing_rounds(at_ms: int) -> Iterator[Reading]:
    yield Reading(rounds.failing())


def connections() -> tuple[int, int]:
    """The database's connections that are used, and how many it takes."""
    statement = "SELECT count(*), current_setting('max_connections')::int FROM pg_stat_activity WHERE backend_type = %s"
    with connection.cursor() as cursor:
        cursor.execute(statement, ["client backend"])
        used, most = cursor.fetchone()
    return int(used), int(most)


def _connections(at_ms: int) -> Iterator[Reading]:
    used, most = connections()
    yield Reading(100 * used / most)


def _burn(burn: Burn) -> Read:
    def read(at_ms: int) -> Iterator[Reading]:
        for objective, rate in service_levels.burns(burn, at_ms):
            yield Reading(rate, objective.code, objective.title)

    return read


def _certificate_left(at_ms: int) -> Iterator[Reading]:
    path = nodes.gateway_certificate()
    if not path:
        return
    try:
        certificate = x509.load_pem_x509_certificate(Path(path).read_bytes())
    except (OSError, ValueError):  # this process may not be on the machine of the gateway
        yield Reading(None)
    else:
        left = certificate.not_valid_after_utc - datetime.fromtimestamp(at_ms / 1000, UTC)
        yield Reading(max(0.0, left.total_seconds() * 1000))


READS: Mapping[str, Read] = {
    **readings_of_jobs.READS,
    **readings_of_endpoints.READS,
    "team.queue_wait": _queue_wait(WaitClass.HIGH, "queue_wait"),
    "team.queue_wait_normal": _queue_wait(WaitClass.NORMAL, "queue_wait_normal"),
    "team.queue_wait_low": _queue_wait(WaitClass.LOW, "queue_wait_low"),
    "team.storage": _storage,
    "team.dataset_age": _dataset_age,
    "team.dataset_freshness": _dataset_freshness,
    "team.storage_cost": _storage_cost,
    "team.damaged_files": _damaged_files,
    "cluster.utilisation": _cluster_utilisation,
    "cluster.job_failures": _job_failures,
    "cluster.checkpoint_failures": _checkpoint_failures,
    "cluster.node_failures": _node_failures,
    "node.ecc_corrected": _of_nodes(_worst("ecc_corrected_hour")),
    "node.ecc_uncorrected": _of_nodes(_worst("ecc_uncorrected_hour")),
    "node.clock_offset": _of_nodes(_clock_offset),
    "node.uplink_lag": _of_nodes(lambda node: node.uplink_lag_ms),
    "node.uploads_waiting": _of_nodes(_uploads_waiting),
    "platform.fast_burn": _burn(FAST),
    "platform.slow_burn": _burn(SLOW),
    "platform.round_age": _unless_stopped(stops.WORKER, _round_age),
    "platform.leaderless": _unless_stopped(stops.WORKER, _leaderless),
    "platform.gateway_silence": _unless_stopped(stops.GATEWAY, _gateway_silence),
    "platform.worker_silence": _unless_stopped(stops.WORKER, _worker_silence),
    "platform.router_silence": _unless_stopped(stops.ROUTER, _router_silence),
    "platform.task_lag": _task_lag,
    "platform.failing_rounds": _failing_rounds,
    "platform.database_connections": _connections,
    "platform.certificate_left": _certificate_left,
}
