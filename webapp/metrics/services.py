"""The metric store: append, compaction, deletion.

append   keeps points of a subject. Idempotent by (subject, source, sequence): a sequence at or below the highest that
         was kept changes nothing. A later attempt replaces the steps that it repeats, and an earlier one never comes
         back; within one attempt points of one step stand beside each other, and equal points count once.
compact  makes segments of 4,096 points out of small ones; readers see no difference.
delete   forgets subjects, `delete_keys` single metrics of one.

Each is one transaction (compaction: one for a few series), and changes of one subject happen one after the other.
Limits of names and sizes are the caller's. Any thread and process may call.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from celery import current_app
from django.conf import settings
from django.db import transaction
from django.db.models import F

from platform_core.metrics.blocks import joined, merge, total
from platform_core.metrics.points import Places, merged, visible
from platform_core.metrics.points import Points as Batch
from platform_core.metrics.points import points as columns
from webapp.base.identity import now_ms
from webapp.base.traffic import COUNTER
from webapp.metrics import codec, heads, segments
from webapp.metrics.database import rows
from webapp.metrics.heads import Heads
from webapp.metrics.models import Segment, Series, Source, Subject
from webapp.metrics.segments import SEGMENT_POINTS
from webapp.metrics.values import Points

MOST_PENDING = 128  # small segments of a series: a page that draws it reads each
SILENT_MS = 600_000
SERIES_AT_ONCE = 50
SWEPT_AT_ONCE = 200

_ADVANCE = """
INSERT INTO metrics_source AS known (subject, source, sequence) VALUES (%(subject)s, %(source)s, %(sequence)s)
ON CONFLICT (subject, source) DO UPDATE SET sequence = EXCLUDED.sequence WHERE known.sequence < EXCLUDED.sequence
RETURNING sequence
"""
_NEXT_VERSION = """
INSERT INTO metrics_subject AS known (id, version, compacted_version, changed_ms) VALUES (%(id)s, 1, 0, %(now)s)
ON CONFLICT (id) DO UPDATE SET version = known.version + 1, changed_ms = EXCLUDED.changed_ms
RETURNING version
"""


def append(
    subject: str, points: Sequence[Points], *, attempt: int = 0, source: str = "", sequence: int | None = None
) -> bool:
    """Keeps the points; False if this batch of the source was kept before."""
    batch, numbers, keys = _batch(points, attempt)
    with transaction.atomic():
        if sequence is not None and not rows(
            _ADVANCE, {"subject": subject, "source": source, "sequence": sequence}
        ):
            return False
        if len(batch):
            _keep(subject, keys, batch, numbers)
    COUNTER.tally("metric_points", {"": len(batch)})
    return True


def _batch(points: Sequence[Points], attempt: int) -> tuple[Batch, Places, list[str]]:
    """The points that count, series after series, with the number of the series of each."""
    points = [series for series in points if len(series.steps)]
    keys = list(dict.fromkeys(series.key for series in points))
    if not keys:
        return columns([], [], []), np.zeros(0, np.int64), []
    number = {key: place for place, key in enumerate(keys)}
    numbers = np.repeat([number[series.key] for series in points], [len(series.steps) for series in points])
    batch = columns(
        np.concatenate([np.asarray(series.steps, np.int64) for series in points]),
        np.concatenate([np.asarray(series.values, np.float64) for series in points]),
        np.concatenate([np.asarray(series.times_ms, np.int64) for series in points]),
        attempt,
    )
    order = visible(batch, numbers)
    return batch[order], numbers[order], keys


def _keep(subject: str, keys: Sequence[str], batch: Batch, numbers: Places) -> None:
    [(version,)] = rows(_NEXT_VERSION, {"id": subject, "now": now_ms()})
    attempt = int(batch["attempt"][0])
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    before = heads.load(subject, keys, attempt)
    followed = heads.followed(before, batch[starts])
    in_between = np.flatnonzero((before["id"] > 0) & ~followed)
    new = segments.pieces(batch, starts)
    after = heads.grown(before, attempt, new)
    of_batch = merge(new.blocks, new.block_starts[np.searchsorted(new.stretches, np.arange(len(keys)))])
    after["summary"] = of_batch
    pairs = np.stack([before["summary"][followed], of_batch[followed]], axis=1)
    after["summary"][followed] = merge(pairs.reshape(-1), np.arange(0, pairs.size, 2))
    parts = np.split(batch, starts[1:]) if len(in_between) else []
    for series in in_between.tolist():
        after["summary"][series] = _put_in_between(int(before["id"][series]), parts[series], version)
    ids = heads.write(subject, version, keys, after)
    if len(in_between) < len(keys):
        segments.write(ids, version, segments.without(new, in_between))
    if _grew_full(before, after):
        transaction.on_commit(lambda: current_app.send_task("metrics.compact", args=[subject], retry=False))


def _put_in_between(series: int, batch: Batch, version: int) -> np.void:
    """Writes points among those of a series, and returns its summary."""
    met, new = segments.replaced(series, batch)
    summary: np.void = total(joined([segments.blocks(series, met), new.blocks]))[0]
    segments.drop(met)
    segments.write(np.full(len(new.starts), series), version, new)
    return summary


def _grew_full(old: Heads, new: Heads) -> bool:
    """True once for each 4,096 points and each 128 segments that wait, not with each batch while no worker is there."""
    return any(
        bool((old[name] // full < new[name] // full).any())
        for name, full in (("pending_points", SEGMENT_POINTS), ("pending_segments", MOST_PENDING))
    )


def compact(subject: str) -> None:
    """Makes segments of 4,096 points out of small ones. Idempotent; a transaction for a few series at a time, so that
    killed at any moment it has changed nothing or all of them."""
    version = Subject.objects.filter(id=subject).values_list("version", flat=True).first()
    pending = Series.objects.filter(subject=subject, pending_segments__gt=0).order_by("id")
    ids = list(pending.values_list("id", flat=True))
    for first in range(0, len(ids), SERIES_AT_ONCE):
        _compact_series(subject, ids[first : first + SERIES_AT_ONCE])
    Subject.objects.filter(id=subject).update(compacted_version=version or 0)


def _compact_series(subject: str, series: Sequence[int]) -> None:
    with transaction.atomic():
        if not Subject.objects.select_for_update().filter(id=subject).exists():
            return
        runs = segments.runs_of_small_ones(series)
        segments.drop([id for run in runs for id in run.ids])
        if runs:
            points = [merged([codec.decode(*payload) for payload in run.payloads]) for run in runs]
            starts = np.cumsum([0, *(len(part) for part in points[:-1])])
            new = segments.pieces(np.concatenate(points), starts, compacted=True)
            versions = np.array([run.version for run in runs], np.int64)[new.stretches]
            segments.write(np.array([run.series for run in runs], np.int64), versions, new)
        Series.objects.filter(id__in=series).update(pending_segments=0, pending_points=0)


def sweep() -> None:
    """Compacts subjects that have been silent for a while: runs that ended, and those whose hint was lost."""
    silent = Subject.objects.filter(version__gt=F("compacted_version"), changed_ms__lt=now_ms() - SILENT_MS)
    for subject in silent.order_by("changed_ms").values_list("id", flat=True)[:SWEPT_AT_ONCE]:
        compact(subject)


def retain() -> None:
    """Deletes the points of subjects that have reported nothing for so many days as the setting says."""
    if settings.METRIC_RETENTION_DAYS:
        before = now_ms() - settings.METRIC_RETENTION_DAYS * 86_400_000
        old = Subject.objects.filter(changed_ms__lt=before).order_by("changed_ms")
        for subject in old.values_list("id", flat=True)[:SWEPT_AT_ONCE]:
            delete([subject])


def delete(subjects: Iterable[str]) -> None:
    ids = list(subjects)
    with transaction.atomic():
        Source.objects.filter(subject__in=ids).delete()
        list(Subject.objects.select_for_update().filter(id__in=ids).order_by("id"))
        Segment.objects.filter(series__subject__in=ids).delete()
        Series.objects.filter(subject__in=ids).delete()
        Subject.objects.filter(id__in=ids).delete()


def delete_keys(subject: str, keys: Iterable[str]) -> None:
    names = list(keys)
    with transaction.atomic():
        if Series.objects.filter(subject=subject, key__in=names).exists():
            rows(_NEXT_VERSION, {"id": subject, "now": now_ms()})
            Segment.objects.filter(series__subject=subject, series__key__in=names).delete()
            Series.objects.filter(subject=subject, key__in=names).delete()
