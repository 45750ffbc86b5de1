"""The metric store: append, compaction, deletion.

append   keeps points of a subject. Idempotent by (subject, source, sequence): a sequence at or below the highest that
         was kept changes nothing. A later attempt replaces the steps that it repeats, and an earlier one never comes
         back; within one attempt points of one step stand beside each other, and equal points count once.
compact  makes segments of 4,096 points out of small ones; readers see no difference.
delete   forgets subjects, `delete_keys` single metrics of one.

Each is one transaction (compaction: one a series), and changes of one subject happen one after the other. Limits of
names and sizes are the caller's. Any thread and process may call.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from celery import current_app
from django.conf import settings
from django.db import transaction
from django.db.models import F

from platform_core.metrics.blocks import Blocks, joined, merge, total
from platform_core.metrics.points import Places, merged, visible
from platform_core.metrics.points import Points as Batch
from platform_core.metrics.points import points as columns
from webapp.base.identity import now_ms
from webapp.metrics import heads, segments
from webapp.metrics.database import rows
from webapp.metrics.heads import Head
from webapp.metrics.models import Segment, Series, Source, Subject
from webapp.metrics.segments import SEGMENT_POINTS, Piece
from webapp.metrics.values import Points

MOST_PENDING = 128  # small segments of a series: a page that draws it reads each
SILENT_MS = 600_000
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
    parts = np.split(batch, starts[1:])
    known = heads.load(subject, keys)
    before = [known.get(key) or heads.fresh(key, attempt) for key in keys]
    pieces = list(segments.pieces(batch, starts))
    totals = merge(np.concatenate([piece.blocks for part in pieces for piece in part]), _first_blocks(pieces))
    following = [place for place, head in enumerate(before) if head.id and head.is_followed_by(parts[place])]
    _add_known(totals, before, following)
    for place, head in enumerate(before):
        if head.id and place not in following:
            met, pieces[place] = segments.replaced(head.id, parts[place])
            ids = [segment.id for segment in met]
            segments.drop(ids)
            others = segments.blocks(head.id, ids)
            totals[place] = total(joined([others, *(piece.blocks for piece in pieces[place])]))[0]
    after = [head.with_pieces(pieces[place], attempt) for place, head in enumerate(before)]
    ids_of = heads.write(subject, version, after, totals)
    segments.write(
        version, [(ids_of[key], piece) for key, part in zip(keys, pieces, strict=True) for piece in part]
    )
    if any(_grew_full(old, new) for old, new in zip(before, after, strict=True)):
        transaction.on_commit(lambda: current_app.send_task("metrics.compact", args=[subject], retry=False))


def _first_blocks(pieces: Sequence[Sequence[Piece]]) -> Places:
    sizes = [sum(len(piece.blocks) for piece in part) for part in pieces]
    return np.cumsum([0, *sizes[:-1]])


def _add_known(totals: Blocks, before: Sequence[Head], following: Sequence[int]) -> None:
    """Adds to the totals of the batch what was known of the series that it follows."""
    if following:
        pairs = np.stack([heads.summaries([before[place] for place in following]), totals[following]], axis=1)
        totals[following] = merge(pairs.reshape(-1), np.arange(0, 2 * len(following), 2))


def _grew_full(old: Head, new: Head) -> bool:
    """True once for each 4,096 points and each 128 segments that wait, not with each batch while no worker is there."""
    return (
        old.pending_points // SEGMENT_POINTS < new.pending_points // SEGMENT_POINTS
        or old.pending_segments // MOST_PENDING < new.pending_segments // MOST_PENDING
    )


def compact(subject: str) -> None:
    """Makes segments of 4,096 points out of small ones. Idempotent; killed at any moment it has changed nothing or all
    of a series."""
    version = Subject.objects.filter(id=subject).values_list("version", flat=True).first()
    pending = Series.objects.filter(subject=subject, pending_segments__gt=0)
    for series in pending.order_by("id").values_list("id", flat=True):
        _compact_series(subject, series)
    Subject.objects.filter(id=subject).update(compacted_version=version or 0)


def _compact_series(subject: str, series: int) -> None:
    with transaction.atomic():
        if not Subject.objects.select_for_update().filter(id=subject).exists():
            return
        for run in _runs_of_small_ones(segments.extents(series)):
            ids = [segment.id for segment in run]
            version = max(Segment.objects.filter(id__in=ids).values_list("version", flat=True))
            together = merged(list(segments.decoded(ids).values()))
            [pieces] = segments.pieces(together, np.zeros(1, np.int64), compacted=True)
            segments.drop(ids)
            segments.write(version, [(series, piece) for piece in pieces])
        Series.objects.filter(id=series).update(pending_segments=0, pending_points=0)


def _runs_of_small_ones(all_segments: Iterable[segments.Extent]) -> list[list[segments.Extent]]:
    """Neighbours that are worth one segment; a compacted one among full ones stays as it is."""
    runs: list[list[segments.Extent]] = [[]]
    for segment in all_segments:
        if segment.count < SEGMENT_POINTS:
            runs[-1].append(segment)
        else:
            runs.append([])
    return [run for run in runs if len(run) > 1 or any(not segment.compacted for segment in run)]


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
