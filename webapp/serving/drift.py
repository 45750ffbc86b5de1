"""Whether what an endpoint is asked and answers has another distribution than it had.

The window are the newest samples of the last day. There are three references: the sample of its training data that came
with the version, its first samples, and those of the week before the day.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet

from platform_core.drift.detection import LEAST, Finding, Row, judge_against
from platform_core.drift.features import largest_slices, slices_of
from platform_core.json_values import storable
from platform_core.units import DAY_MS, MINUTE_MS
from webapp.base import rounds
from webapp.base.lease import Fence
from webapp.serving import training
from webapp.serving.answers import forget_predictions
from webapp.serving.models import AnswerSample, Endpoint
from webapp.sockets import services as sockets

REFERENCE, WINDOW = 500, 500  # samples
LEAST_REFERENCE = 200  # samples; fewer are no reference
TRAINING, FIRST, LAST_WEEK = "training", "first", "last week"
EVERY_MS, WINDOW_MS, WEEK_MS = MINUTE_MS, DAY_MS, 7 * DAY_MS
ONE_OF_MS = 10 * MINUTE_MS  # of the last week one sample of so long is kept
MOST_OF_WEEK = WEEK_MS // ONE_OF_MS
SHOWN = 50  # findings
MOST_SLICES = 12  # each is tested by itself

Features = Mapping[str, Any]


def look(now_ms: int, fence: Fence) -> None:
    """Looks at each endpoint that samples, once a minute, and forgets what is not needed any more."""
    rows = Endpoint.objects.filter(stopped=False, spec__sample_percent__gt=0).order_by("id")
    due = [row for row in rows if now_ms - row.drift.get("at_ms", 0) >= EVERY_MS]
    rounds.each("drift of endpoint", due, lambda row: _look(row, now_ms, fence))


def _look(row: Endpoint, now_ms: int, fence: Fence) -> None:
    found = measured(row, now_ms)
    with fence():
        Endpoint.objects.filter(pk=row.pk, stable=row.stable_id).update(drift=found)
        forget(row, now_ms)
        forget_predictions(row, now_ms)
    if found["findings"] or row.drift.get("findings"):
        sockets.publish(f"endpoint:{row.id}")


def measured(row: Endpoint, now_ms: int) -> dict[str, Any]:
    """The distances of the features, those that moved most first; none while there are too few samples."""
    samples = AnswerSample.objects.filter(endpoint=row.pk, model_version=row.stable_id)
    first = list(samples.order_by("id").values_list("id", "features")[:REFERENCE])
    complete = len(first) == REFERENCE
    after = samples.filter(id__gt=first[-1][0]) if complete else samples
    day_ago = now_ms - WINDOW_MS
    newest = _features(after.filter(at_ms__gte=day_ago).order_by("-id")[:WINDOW])
    week = after.filter(at_ms__gte=day_ago - WEEK_MS, at_ms__lt=day_ago)
    references = {
        TRAINING: training.rows_of(row.stable_id),
        FIRST: [features for _, features in first],
        LAST_WEEK: _features(week.order_by("id")[:MOST_OF_WEEK]),
    }
    known = {
        name: rows
        for name, rows in references.items()
        if len(rows) >= (REFERENCE if name == FIRST else LEAST_REFERENCE)
    }
    enough = known and len(newest) >= LEAST
    findings = judge_against(*_rows(known, newest, row.spec.get("slices", ()))) if enough else ()
    return {
        "at_ms": now_ms,
        "reference": len(first),
        "references": {name: len(rows) for name, rows in references.items()},
        "window": len(newest) if known else 0,
        "findings": [_shown(one) for one in findings[:SHOWN]],
    }


def _features(rows: QuerySet[AnswerSample]) -> list[Features]:
    return list(rows.values_list("features", flat=True))


def _shown(finding: Finding) -> dict[str, Any]:
    return {
        "feature": finding.feature, "slice": finding.slice, "test": finding.test, "moved": finding.moved,
        "value": storable(finding.value), "limit": storable(finding.limit), "reference": finding.reference,
        "window": finding.window, "against": finding.against,
    }  # fmt: skip


def forget(row: Endpoint, now_ms: int) -> None:
    """Keeps of the version in use its first samples, its newest, and one of each ten minutes of the last week before
    this day; of other versions nothing a day later."""
    samples = AnswerSample.objects.filter(endpoint=row.pk)
    samples.exclude(model_version=row.stable_id).filter(at_ms__lt=now_ms - WINDOW_MS).delete()
    own = samples.filter(model_version=row.stable_id)
    reference = list(own.order_by("id").values_list("pk", flat=True)[:REFERENCE])
    oldest = own.order_by("-id").values_list("pk", flat=True)[WINDOW : WINDOW + 1].first()
    if oldest is None:
        return
    passed = own.filter(pk__lte=oldest).exclude(pk__in=reference)
    recent = passed.filter(at_ms__gte=now_ms - WINDOW_MS - WEEK_MS)
    kept: dict[int, int] = {}
    for key, at_ms in recent.order_by("id").values_list("pk", "at_ms"):
        kept.setdefault(at_ms // ONE_OF_MS, key)
    passed.exclude(pk__in=kept.values()).delete()


def _rows(
    references: Mapping[str, Sequence[Features]], newest: Sequence[Features], names: Collection[str]
) -> tuple[dict[str, list[Row]], list[Row]]:
    """With their slices, of which the largest of the window are looked at."""
    largest = largest_slices((slices_of(one, names) for one in newest), MOST_SLICES)
    by_name = {name: [row_of(one, names, largest) for one in rows] for name, rows in references.items()}
    return by_name, [row_of(one, names, largest) for one in newest]


def row_of(sample: Features, names: Collection[str] = (), largest: frozenset[str] = frozenset()) -> Row:
    features = {name: tuple(value) if isinstance(value, list) else value for name, value in sample.items()}
    return Row(features, tuple(name for name in slices_of(sample, names) if name in largest))
