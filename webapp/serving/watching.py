"""What is known of a version that is tried, beside the version in use, since the trial began."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Sum

from platform_core.drift.detection import Row, judge
from platform_core.serving.canary import CanaryPolicy, Traffic, Watch
from platform_core.serving.latency import added
from webapp.serving import queries
from webapp.serving.drift import WINDOW, row_of
from webapp.serving.models import AnswerSample, Endpoint, Prediction, ShadowSample
from webapp.serving.values import BUCKET_MS

FALSE_ALARMS = 0.001  # of one look: there are many while a trial goes on
MOST_PAIRS = (
    2_000  # of the newest sampled requests, among which those are looked for that were answered otherwise
)


def watch(row: Endpoint, policy: CanaryPolicy, now_ms: int, *, outputs: bool) -> Watch:
    """`outputs`: whether their distributions are compared, which takes longer than the rest."""
    assert row.canary_id is not None
    began = row.canary_since_ms or now_ms
    since = began - began % BUCKET_MS
    return Watch(
        began, row.canary_ready_ms, queries.traffic(row.id, row.stable_id, since),
        tried(row.id, row.canary_id, since, shadow=policy.shadow),
        queries.quality_since(row.id, row.stable_id, began), queries.quality_since(row.id, row.canary_id, began),
        moved_outputs(row, began) if outputs else (),
    )  # fmt: skip


def tried(endpoint_id: str, version_id: str, since_ms: int, *, shadow: bool) -> Traffic:
    """What the version under trial answered: to callers, or to copies of their requests."""
    if not shadow:
        return queries.traffic(endpoint_id, version_id, since_ms)
    rows = ShadowSample.objects.filter(endpoint=endpoint_id, model_version=version_id, at_ms__gte=since_ms)
    names = ("requests", "errors", "compared", "alike", "difference")
    total = {
        name: value or 0 for name, value in rows.aggregate(**{name: Sum(name) for name in names}).items()
    }
    return Traffic(
        total["requests"], total["errors"], tuple(added(rows.values_list("latencies", flat=True))), total["compared"],
        total["alike"], total["difference"] / max(1, total["compared"]),
    )  # fmt: skip


def moved_outputs(row: Endpoint, since_ms: int) -> tuple[str, ...]:
    """Outputs that the version under trial distributes otherwise than the one in use."""
    rows = AnswerSample.objects.filter(endpoint=row.pk, at_ms__gte=since_ms).order_by("-id")
    stable, canary = (
        _outputs(rows.filter(model_version=version).values_list("features", flat=True)[:WINDOW])
        for version in (row.stable_id, row.canary_id)
    )
    return tuple(dict.fromkeys(one.feature for one in judge(stable, canary, FALSE_ALARMS) if one.moved))


def _outputs(samples: Iterable[dict[str, Any]]) -> list[Row]:
    return [
        row_of({name: value for name, value in one.items() if name.startswith("output")}) for one in samples
    ]


@dataclass(frozen=True, slots=True)
class Otherwise:
    """A sampled request that both versions answered, each in its way."""

    request: str
    at_ms: int
    stable: dict[str, Any]  # outputs
    canary: dict[str, Any]


def answered_otherwise(row: Endpoint, most: int) -> Sequence[Otherwise]:
    """The newest since the trial began; none where nothing is sampled, or requests have no copies."""
    rows = Prediction.objects.filter(endpoint=row.pk, at_ms__gte=row.canary_since_ms or 0)
    newest = list(
        rows.filter(model_version=row.canary_id)
        .order_by("-id")
        .values_list("request", "outputs")[:MOST_PAIRS]
    )
    pairs = rows.filter(model_version=row.stable_id, request__in=[request for request, _ in newest])
    by_request = {one.request: one for one in pairs}
    found = (
        Otherwise(request, by_request[request].at_ms, by_request[request].outputs, outputs)
        for request, outputs in newest
        if request in by_request and by_request[request].outputs != outputs
    )
    return [one for one, _ in zip(found, range(most), strict=False)]
