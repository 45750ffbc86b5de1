"""Datasets whose newest versions are old."""

from __future__ import annotations

from platform_core.units import DAY_MS, MINUTE_MS
from tests.webapp.alerts.proving import Clock, proves
from webapp.accounts.models import Team, User
from webapp.alerts import readings
from webapp.datasets.models import Dataset, DatasetSnapshot


def test_a_dataset_that_is_renewed_no_more(vision: Team, owner: User, clock: Clock) -> None:
    def renewed(at: int) -> DatasetSnapshot:
        number = DatasetSnapshot.objects.count() + 1
        return DatasetSnapshot.objects.create(
            id=f"ds-{number}", team=vision, name="clicks", version=number, created_ms=at, created_by=owner
        )

    for days in (40, 38, 36):
        renewed(clock.now - days * DAY_MS)
    [reading] = readings.take(clock.now, ["team.dataset_age"])["team.dataset_age"] or []
    assert (reading.value, reading.detail) == (1800, "the newest version of clicks is 36 days old")
    proves("dataset_stale", clock, lambda at: None, renewed)


def test_a_dataset_that_is_older_than_was_promised(vision: Team, owner: User, clock: Clock) -> None:
    def version(at: int) -> object:
        number = DatasetSnapshot.objects.count() + 1
        return DatasetSnapshot.objects.create(
            id=f"ds-{number}", team=vision, name="clicks", version=number, created_ms=at, created_by=owner
        )

    Dataset.objects.create(team=vision, name="clicks", fresh_minutes=60, follow_error="it is away")
    version(clock.now - 90 * MINUTE_MS)
    [reading] = readings.take(clock.now, ["team.dataset_freshness"])["team.dataset_freshness"] or []
    said = (
        "the newest version of clicks is 90 minutes old, and 60 minutes were promised; the last look failed: "
    )
    assert (reading.value, reading.detail) == (150, said + "it is away")
    proves("dataset_late", clock, lambda at: None, version)
