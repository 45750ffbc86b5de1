"""Sampled requests as a dataset that grows: kept with consent, and published as versions once a day or on demand."""

from __future__ import annotations

import io
import json
import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.models import Max, Min, Sum

from platform_core.errors import TrainmasterError
from platform_core.json_values import storable
from platform_core.serving.collection import as_lines, rows_of
from platform_core.units import DAY_MS, SECOND_MS
from webapp.accounts.queries import actor_of
from webapp.artifacts import services as artifacts
from webapp.base import rounds
from webapp.base.identity import now_ms
from webapp.datasets import services as datasets
from webapp.serving.models import CollectedRequest, Endpoint, Prediction
from webapp.serving.queries import collected_name
from webapp.serving.values import SampledAnswer
from webapp.sockets import services as sockets

log = logging.getLogger(__name__)
MOST_REQUESTS, MOST_BYTES = 50_000, 256 << 20  # of one endpoint: the oldest make room
EVERY_MS = DAY_MS  # between two versions that nobody asked for
AT_ONCE = 1_000  # requests that are read together
UNKNOWN = "No version could be made; the log of the workers says why."


def keep(answers: Sequence[SampledAnswer]) -> None:
    rows = [(one, storable(rows_of(one.request, one.answer, one.redact))) for one in answers]
    CollectedRequest.objects.bulk_create(
        [
            CollectedRequest(
                endpoint_id=one.endpoint_id, model_version_id=one.version_id, request=one.request_id, at_ms=one.at_ms,
                rows=kept, bytes=len(json.dumps(kept)),
            )
            for one, kept in rows
            if kept
        ],
        ignore_conflicts=True,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Collected:
    """What is kept for the next version."""

    requests: int
    size: int  # bytes
    first_ms: int | None
    last_ms: int | None
    fresh: int  # requests that no version has yet


def collected(row: Endpoint) -> Collected:
    own = CollectedRequest.objects.filter(endpoint=row.pk)
    total = own.aggregate(size=Sum("bytes"), first=Min("at_ms"), last=Max("at_ms"))
    fresh = own.filter(pk__gt=row.collection.get("last", 0)).count()
    return Collected(own.count(), total["size"] or 0, total["first"], total["last"], fresh)


def publish_due() -> None:
    """Forgets what is too old, and makes a version of what came since the last one, once a day."""
    rows = Endpoint.objects.filter(collected__isnull=False).distinct().order_by("id")
    rounds.each("requests of endpoint", list(rows), _publish_due)


def _publish_due(row: Endpoint) -> None:
    now = now_ms()
    forget(row, now)
    if now - row.collection.get("at_ms", row.created_ms) < EVERY_MS or not collected(row).fresh:
        return
    try:
        publish(row)
    except Exception as error:
        log.warning("endpoint %s: no version of its requests", row.pk, exc_info=error)
        why = error.sentence if isinstance(error, TrainmasterError) else UNKNOWN
        _note(row, {**row.collection, "at_ms": now, "error": why})


def publish(row: Endpoint) -> int:
    """Makes the next version of its dataset, in the name of who made the endpoint; its number.

    A version has all that is kept, a file a day, with the labels that have come. The same requests and labels again
    are the same version. Raises request_invalid where nothing is kept, and what uploads and datasets refuse.
    """
    name = collected_name(row)
    last = CollectedRequest.objects.filter(endpoint=row.pk).aggregate(last=Max("pk"))["last"]
    if last is None:
        why = "nothing is collected yet; it keeps sampled requests whose callers agree"
        raise TrainmasterError("request_invalid", what=name, why=why)
    actor = actor_of(row.user)
    upload = artifacts.start_upload(actor, row.team_id, "dataset", name)
    days: dict[str, list[str]] = defaultdict(list)
    for day, lines in _lines(row, last):
        days[day].append(lines)
    for day, texts in days.items():
        artifacts.receive_file(actor, upload.id, f"{day}.jsonl", io.BytesIO("".join(texts).encode()))
    manifest = artifacts.complete_upload(actor, upload.id, len(days))
    snapshot = datasets.add_snapshot(actor, row.team_id, name, manifest.id, ",".join(row.spec["collect_for"]))
    made = {"snapshot": snapshot.id, "version": snapshot.version, "last": last, "error": ""}
    _note(row, {"at_ms": now_ms(), **made})
    return snapshot.version


def _lines(row: Endpoint, last: int) -> Iterator[tuple[str, str]]:
    """Day and JSON lines of each request, the oldest first."""
    own = CollectedRequest.objects.filter(endpoint=row.pk, pk__lte=last)
    own, after = own.select_related("model_version").order_by("pk"), 0
    while batch := list(own.filter(pk__gt=after)[:AT_ONCE]):
        after = batch[-1].pk
        told = Prediction.objects.filter(endpoint=row.pk, request__in=[one.request for one in batch])
        labels = dict(told.exclude(labelled_ms=None).values_list("request", "label"))
        for one in batch:
            at = datetime.fromtimestamp(one.at_ms / SECOND_MS, UTC)
            about = {"request": one.request, "at": at.isoformat(timespec="seconds")}
            lines = as_lines(
                one.rows, **about, version=one.model_version.version, label=labels.get(one.request)
            )
            yield at.date().isoformat(), lines


def forget(row: Endpoint, at_ms: int) -> None:
    """What is older than it may be, and the oldest beyond what an endpoint may keep."""
    own = CollectedRequest.objects.filter(endpoint=row.pk)
    own.filter(at_ms__lt=at_ms - row.spec.get("collect_days", 30) * DAY_MS).delete()
    size = 0
    for number, (key, length) in enumerate(own.order_by("-pk").values_list("pk", "bytes").iterator()):
        size += length
        if number >= MOST_REQUESTS or size > MOST_BYTES:
            own.filter(pk__lte=key).delete()
            return


def _note(row: Endpoint, collection: dict[str, object]) -> None:
    row.collection = collection
    Endpoint.objects.filter(pk=row.pk).update(collection=collection)
    sockets.publish(f"endpoint:{row.pk}")
