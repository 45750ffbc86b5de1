"""Families of the platform for Prometheus, from a few aggregate queries each; docs/reference/metrics.md lists them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from webapp.accounts import mailing
from webapp.alerts import queries as alerts
from webapp.base import pulse, traffic
from webapp.base.identity import now_ms
from webapp.checkpoints import measures as checkpoints
from webapp.jobs import measures as jobs
from webapp.nodes import measures as nodes
from webapp.scheduling import measures as scheduling

SECOND_MS = 1000


def of_teams(teams: Iterable[str] | None) -> Iterator[Metric]:
    """Families that have the label team; None is all teams."""
    now, seen = now_ms(), None if teams is None else set(teams)
    by_state = gauge("jobs", "Jobs by state.", "state", "team")
    for (state, team), count in jobs.by_state_and_team().items():
        if seen is None or team in seen:
            by_state.add_metric((state, team), count)
    yield by_state
    waiting = gauge("queue_jobs", "Jobs that wait for slots.", "team", "gpu_type")
    slots = gauge("queue_slots", "Slots that waiting jobs ask for.", "team", "gpu_type")
    longest = gauge("queue_longest_wait_seconds", "Longest wait of a waiting job.", "team", "gpu_type")
    for key, waits in jobs.queue(now).items():
        if seen is None or key[0] in seen:
            waiting.add_metric(key, waits.jobs)
            slots.add_metric(key, waits.slots)
            longest.add_metric(key, waits.longest_ms / SECOND_MS)
    yield from (waiting, slots, longest)
    open_alerts = gauge(
        "alerts", "Open alerts; those of the cluster have no team.", "severity", "state", "team"
    )
    for (severity, state, team), count in alerts.counts().items():
        if seen is None or team in seen:
            open_alerts.add_metric((severity, state, team), count)
    yield open_alerts


def of_platform() -> Iterator[Metric]:
    """Families of the cluster and of the platform's own parts, for operators."""
    yield from _cluster()
    yield from _checkpoints()
    yield from _parts(now_ms())
    yield from _traffic()
    yield from _tallied(traffic.tallies())


def _cluster() -> Iterator[Metric]:
    by_state = gauge("nodes", "Nodes by state.", "state")
    for state, count in nodes.by_state().items():
        by_state.add_metric((state,), count)
    slots = gauge("slots", "Slots by type: held, free or out_of_service.", "gpu_type", "use")
    for key, count in nodes.slots_by_use().items():
        slots.add_metric(key, count)
    restarts = counter(
        "job_restarts", "Restarts of jobs by the reason why the attempt before ended.", "cause"
    )
    for cause, count in jobs.restarts_by_cause().items():
        restarts.add_metric((cause,), count)
    yield from (by_state, slots, restarts)


def _checkpoints() -> Iterator[Metric]:
    totals = checkpoints.totals()
    yield counter("checkpoints", "Checkpoints that are whole in the store.", value=totals.saved)
    yield counter("checkpoints_damaged", "Checkpoints that cannot be restored.", value=totals.damaged)
    yield counter("checkpoint_bytes", "Bytes of all checkpoints.", value=totals.bytes)
    blocking = totals.blocking_ms / SECOND_MS
    yield counter(
        "checkpoint_blocking_seconds", "Time for which training stood still to save.", value=blocking
    )
    upload = totals.upload_ms / SECOND_MS
    yield counter("checkpoint_upload_seconds", "Time until checkpoints were in the store.", value=upload)


def _parts(now: int) -> Iterator[Metric]:
    round_ = scheduling.last_round()
    if round_ is not None:
        age = (now - round_.at_ms) / SECOND_MS
        yield gauge(
            "scheduler_round_age_seconds", "Time since the last finished scheduling round.", value=age
        )
        took = round_.took_ms / SECOND_MS
        yield gauge("scheduler_round_seconds", "Duration of the last scheduling round.", value=took)
    yield counter("scheduler_rounds", "Finished scheduling rounds.", value=scheduling.rounds())
    silence = gauge("worker_silence_seconds", "Time since the program last began a task.", "program")
    lag = gauge("task_lag_seconds", "Time that its newest task waited in the queue.", "program")
    for program, newest in pulse.last().items():
        silence.add_metric((program,), (now - newest.at_ms) / SECOND_MS)
        lag.add_metric((program,), newest.lag_ms / SECOND_MS)
    yield from (silence, lag)
    gateway_ms = nodes.gateway_silence_ms(now)
    if gateway_ms is not None:
        of_gateway = gateway_ms / SECOND_MS
        yield gauge("gateway_silence_seconds", "Time since a gateway last listened.", value=of_gateway)
    used, most = alerts.connections()
    yield gauge("database_connections", "Used connections of the database.", value=used)
    yield gauge("database_connections_limit", "Connections that the database takes.", value=most)
    yield gauge("mails_waiting", "Mails that no server has accepted yet.", value=mailing.waiting())
    yield gauge(
        "notices_waiting",
        "Notices that no receiver has accepted yet.",
        value=alerts.waiting_notices(),
    )
    evaluated_ms = alerts.last_evaluated_ms()
    if evaluated_ms is not None:
        age = (now - evaluated_ms) / SECOND_MS
        yield gauge("alert_evaluation_age_seconds", "Time since alert rules were last evaluated.", value=age)


def _traffic() -> Iterator[Metric]:
    requests = counter("requests", "Requests by protocol, route and outcome.", "protocol", "route", "outcome")
    seconds = counter("request_seconds", "Time spent on requests.", "protocol", "route")
    for line in traffic.totals():
        for outcome, count in line.outcomes.items():
            requests.add_metric((line.protocol, line.route, outcome), count)
        seconds.add_metric((line.protocol, line.route), line.seconds)
    yield from (requests, seconds)


def _tallied(counts: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    decisions = counter("scheduler_decisions", "Decisions of scheduling rounds by kind.", "kind")
    for kind, count in counts[scheduling.DECISIONS].items():
        decisions.add_metric((kind,), count)
    batches = counter(
        "uplink_batches", "Batches that agents sent up, by what they carry.", "source", "outcome"
    )
    for label, count in counts["uplink_batches"].items():
        batches.add_metric(label.split("|"), count)
    sent = counter("uplink_bytes", "Bytes of these batches.", "source")
    for source, count in counts["uplink_bytes"].items():
        sent.add_metric((source,), count)
    points = counts["metric_points"].get("", 0.0)
    yield from (
        decisions,
        batches,
        sent,
        counter("metric_points", "Metric points that were kept.", value=points),
    )


def gauge(name: str, words: str, *labels: str, value: float | None = None) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"trainmaster_{name}", words, value=value, labels=labels or None)


def counter(name: str, words: str, *labels: str, value: float | None = None) -> CounterMetricFamily:
    return CounterMetricFamily(f"trainmaster_{name}", words, value=value, labels=labels or None)
