"""A stop and a start by an operator burn no error budget and page nobody; a crash does."""

from __future__ import annotations

import pytest
from celery.signals import worker_shutting_down

from platform_core.service_levels.budget import Counts
from platform_core.service_levels.planned_stops import QUIET_MS
from platform_core.units import HOUR_MS, MINUTE_MS
from tests.webapp.alerts.proving import Clock, state
from tests.webapp.service_levels.test_levels import level, lives
from webapp.alerts.models import Alert
from webapp.base import pulse, stops
from webapp.base.models import PlannedStop
from webapp.nodes import liveness
from webapp.scheduling import measures as scheduling
from webapp.service_levels import measuring, queries


def runs(at: int) -> None:
    """A platform that works, as its probes and its alerts see it."""
    liveness.listening(at)
    scheduling.finished(at, 5)
    pulse.keep("worker", pulse.Pulse(at, 0))
    measuring.measure(at)


def stop_at(at: int) -> None:
    for part in (stops.WORKER, stops.GATEWAY, stops.ROUTER):
        PlannedStop.objects.create(part=part, at_ms=at)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    lives(monkeypatch)
    clock = Clock()
    clock.now -= clock.now % MINUTE_MS
    clock.passes(20 * MINUTE_MS, runs, times=20)
    return clock


def test_an_upgrade_of_a_quarter_of_an_hour_pages_nobody(clock: Clock) -> None:
    stop_at(clock.now + 1)
    clock.now += 15 * MINUTE_MS
    measuring.measure(clock.now)  # a worker is back before the gateway and the scheduler
    clock.passes(20_000)
    clock.passes(10 * MINUTE_MS, runs, times=20)
    assert not Alert.objects.filter(fired_ms__gt=0).exists()
    counts = level("availability", clock.now).week
    assert counts.good == counts.total > 0
    assert queries.outages(clock.now) == []
    stopped = queries.stopped(clock.now)
    assert stopped.stops == 3
    assert 15 * MINUTE_MS <= stopped.lasted_ms <= 18 * MINUTE_MS


def test_a_platform_that_died_is_an_outage(clock: Clock) -> None:
    clock.now += 15 * MINUTE_MS
    clock.passes(2 * MINUTE_MS, runs, times=4)
    counts = level("availability", clock.now).week
    assert counts.bad >= 14
    assert state("service_level_burns_fast") == "firing"


def test_a_start_that_fails_is_an_outage(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(clock.now + 1)
    clock.now += 15 * MINUTE_MS
    lives(monkeypatch, "it answered 503")
    clock.passes(20 * MINUTE_MS, runs, times=20)
    assert level("availability", clock.now).week.bad >= 14
    assert state("service_level_burns_fast") == "firing"


def test_a_worker_that_stays_away_is_told_of_after_a_while(clock: Clock) -> None:
    PlannedStop.objects.create(part=stops.WORKER, at_ms=clock.now)
    clock.passes(QUIET_MS - MINUTE_MS, liveness.listening, times=4)
    assert state("worker_down") == ""
    clock.passes(2 * MINUTE_MS, liveness.listening, times=4)
    assert state("worker_down") == "firing"


def test_one_lost_minute_of_an_hour_is_no_alert(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    lives(monkeypatch, "it answered 503")
    clock.passes(MINUTE_MS, runs)
    lives(monkeypatch)
    clock.passes(3 * MINUTE_MS, runs, times=3)
    assert level("availability", clock.now).week.bad == 1
    assert state("service_level_burns_fast") == ""


def test_a_job_that_was_due_while_the_platform_was_stopped_is_not_late() -> None:
    at = 10 * HOUR_MS
    PlannedStop.objects.create(part=stops.WORKER, at_ms=at, back_ms=at, over_ms=at + HOUR_MS)
    objective = queries.entry("first_step_small").objective
    assert queries._counts(objective, (at, at + HOUR_MS, at + HOUR_MS)) == Counts()


@pytest.mark.django_db(transaction=True)
def test_a_worker_that_is_asked_to_end_writes_it_down() -> None:
    worker_shutting_down.send(sender="worker@node", sig="SIGTERM", how="Warm", exitcode=0)
    stops.written()
    [row] = PlannedStop.objects.all()
    assert (row.part, row.over_ms) == (stops.WORKER, None)
