"""Whether what an endpoint is asked and answers has another distribution than when its version began to serve.

The reference are the first samples of the version in use, the window the newest ones of the last day.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from platform_core.drift.detection import LEAST, Finding, Row, judge
from platform_core.drift.features import largest_slices, slices_of
from platform_core.json_values import storable
from platform_core.units import DAY_MS, MINUTE_MS
from webapp.base.lease import Fence
from webapp.serving.answers import forget_predictions
from webapp.serving.models import AnswerSample, Endpoint
from webapp.sockets import services as sockets

REFERENCE, WINDOW = 500, 500  # samples
EVERY_MS, WINDOW_MS = MINUTE_MS, DAY_MS
SHOWN = 50  # findings
MOST_SLICES = 12  # each is tested by itself


def look(now_ms: int, fence: Fence) -> None:
    """Looks at each endpoint that samples, once a minute, and forgets what is not needed any more."""
    for row in Endpoint.objects.filter(stopped=False, spec__sample_percent__gt=0).order_by("id"):
        if now_ms - row.drift.get("at_ms", 0) >= EVERY_MS:
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
    first = list(samples.order_by("id")[:REFERENCE])
    after = samples.filter(id__gt=first[-1].pk, at_ms__gte=now_ms - WINDOW_MS) if first else samples.none()
    newest = list(after.order_by("-id")[:WINDOW])
    enough = len(first) == REFERENCE and len(newest) >= LEAST
    findings = judge(*_rows(first, newest, row.spec.get("slices", ()))) if enough else ()
    return {
        "at_ms": now_ms,
        "reference": len(first),
        "window": len(newest),
        "findings": [_shown(one) for one in findings[:SHOWN]],
    }


def _shown(finding: Finding) -> dict[str, Any]:
    return {
        "feature": finding.feature, "slice": finding.slice, "test": finding.test, "moved": finding.moved,
        "value": storable(finding.value), "limit": storable(finding.limit), "reference": finding.reference,
        "window": finding.window,
    }  # fmt: skip


def forget(row: Endpoint, now_ms: int) -> None:
    """Keeps the reference of the version in use and its newest samples; of other versions nothing a day later."""
    samples = AnswerSample.objects.filter(endpoint=row.pk)
    samples.exclude(model_version=row.stable_id).filter(at_ms__lt=now_ms - WINDOW_MS).delete()
    own = samples.filter(model_version=row.stable_id)
    reference = list(own.order_by("id").values_list("pk", flat=True)[:REFERENCE])
    oldest = own.order_by("-id").values_list("pk", flat=True)[WINDOW : WINDOW + 1].first()
    if oldest is not None:
        own.filter(pk__lte=oldest).exclude(pk__in=reference).delete()


def _rows(
    first: Sequence[AnswerSample], newest: Sequence[AnswerSample], names: Collection[str]
) -> tuple[list[Row], list[Row]]:
    """With their slices, of which the largest of the window are looked at."""
    largest = largest_slices((slices_of(one.features, names) for one in newest), MOST_SLICES)
    return [_row(one, names, largest) for one in first], [_row(one, names, largest) for one in newest]


def _row(sample: AnswerSample, names: Collection[str], largest: frozenset[str]) -> Row:
    features = {
        name: tuple(value) if isinstance(value, list) else value for name, value in sample.features.items()
    }
    return Row(features, tuple(name for name in slices_of(sample.features, names) if name in largest))
