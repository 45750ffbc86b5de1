"""Reads of the metric store. Each takes a fixed number of statements, however many subjects it is asked for."""

from collections.abc import Collection, Iterable
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet, Subquery

from platform_core.experiments.names import RANKS
from platform_core.metrics.points import NONE, merged, place
from platform_core.metrics.points import Points as Batch
from webapp.metrics import codec
from webapp.metrics.by_time import points_by_time
from webapp.metrics.database import rows
from webapp.metrics.drawing import bands, bands_of_keys
from webapp.metrics.models import Series, Subject
from webapp.metrics.values import Latest, Level, Points, Summary

__all__ = [
    "bands",
    "bands_of_keys",
    "by_time",
    "history",
    "keys",
    "keys_of",
    "latest",
    "levels",
    "newest_of_ranks",
    "number_of_keys",
    "order_by_metric",
    "points",
    "reporting",
    "silent_since",
    "summaries",
    "version",
    "with_metric",
]

_SUMMARY = (
    "count", "finite", "first", "first_step", "last", "last_step", "last_ms", "min", "min_step", "max", "max_step",
)  # fmt: skip


def summaries(subjects: Iterable[str], keys: Collection[str] | None = None) -> dict[str, dict[str, Summary]]:
    """Subject → metric → summary. Every subject is there; the metrics are in the order of their names."""
    result: dict[str, dict[str, Summary]] = {subject: {} for subject in subjects}
    found = Series.objects.filter(subject__in=list(result))
    if keys is not None:
        found = found.filter(key__in=list(keys))
    for subject, key, count, finite, *others in found.values_list("subject", "key", *_SUMMARY).iterator():
        result[subject][key] = Summary(count, count - finite, *others)
    return {subject: dict(sorted(of_subject.items())) for subject, of_subject in result.items()}


def levels(subjects: Iterable[str], prefixes: Collection[str]) -> dict[str, dict[str, Level]]:
    """Subject → metric → its level, of metrics whose names begin with one of these. Every subject is there."""
    result: dict[str, dict[str, Level]] = {subject: {} for subject in subjects}
    begins = Q(*(Q(key__startswith=prefix) for prefix in prefixes), _connector=Q.OR)
    found = Series.objects.filter(begins, subject__in=list(result), finite__gt=0).order_by("key")
    columns = ("subject", "key", "sum", "finite", "max", "last", "last_ms")
    for subject, key, total, finite, highest, last, last_ms in found.values_list(*columns).iterator():
        result[subject][key] = Level(total / finite, highest, last, last_ms)
    return result


def newest_of_ranks(subjects: Iterable[str], name: str, since_ms: int) -> dict[str, dict[int, float]]:
    """Subject → rank → what it last reported under `ranks/RANK/NAME`, where that is not older."""
    found = Series.objects.filter(
        subject__in=list(subjects), key__regex=rf"^{RANKS}[0-9]{{1,9}}/{name}$", last_ms__gte=since_ms
    )
    result: dict[str, dict[int, float]] = {}
    for subject, key, last in found.values_list("subject", "key", "last").iterator():
        result.setdefault(subject, {})[int(key.split("/")[1])] = last
    return result


def keys(subjects: Iterable[str]) -> list[str]:
    """The metrics that any of the subjects has reported, in the order of their names."""
    found = Series.objects.filter(subject__in=list(subjects))
    return sorted(found.values_list("key", flat=True).distinct())


def keys_of(subjects: Iterable[str]) -> dict[str, list[str]]:
    """Subject → its metrics; a subject without any is left out."""
    result: dict[str, list[str]] = {}
    for subject, key in Series.objects.filter(subject__in=list(subjects)).values_list("subject", "key"):
        result.setdefault(subject, []).append(key)
    return result


def reporting(rows: QuerySet[Any]) -> QuerySet[Any]:
    """Rows of a table whose primary key is the subject, of those subjects that have reported a metric."""
    return rows.filter(Exists(Series.objects.filter(subject=OuterRef("pk"))))


def number_of_keys(subject: str) -> int:
    return Series.objects.filter(subject=subject).count()


def version(subjects: Iterable[str]) -> tuple[int, ...]:
    """For an ETag: a number for each subject, in their order, that grows with each change of its points."""
    ids = list(subjects)
    known: dict[str, int] = dict(Subject.objects.filter(id__in=ids).values_list("id", "version"))
    return tuple(known.get(subject, 0) for subject in ids)


def with_metric(rows: QuerySet[Any], key: str, *, field: str = "last", name: str = "metric") -> QuerySet[Any]:
    """Rows of a table whose primary key is the subject, with `last`, `min`, `max` … of one metric as `name`."""
    series = Series.objects.filter(subject=OuterRef("pk"), key=key)
    return rows.annotate(**{name: Subquery(series.values(field)[:1])})


def order_by_metric(
    rows: QuerySet[Any], key: str, *, field: str = "last", descending: bool = False
) -> QuerySet[Any]:
    """Rows without the metric come last in both directions; equal values in the order of the primary key."""
    value = F("metric")
    order = value.desc(nulls_last=True) if descending else value.asc(nulls_last=True)
    return with_metric(rows, key, field=field).order_by(order, "pk")


_FROM = """
SELECT s.compacted, s.payload FROM metrics_segment s JOIN metrics_series m ON m.id = s.series_id
WHERE m.subject_id = %(subject)s AND m.key = %(key)s AND (s.last_step, s.last_ms) >= (%(step)s, %(ms)s)
ORDER BY s.first_step, s.first_ms, s.id LIMIT %(most)s
"""
_POINTS = """
SELECT m.key, s.compacted, s.payload FROM metrics_segment s JOIN metrics_series m ON m.id = s.series_id
WHERE m.subject_id = %(subject)s AND (%(keys)s::text[] IS NULL OR m.key = ANY(%(keys)s::text[]))
  AND s.last_step >= %(step)s
"""
_SINCE = """
SELECT m.key, s.compacted, s.payload FROM metrics_segment s JOIN metrics_series m ON m.id = s.series_id
WHERE m.subject_id = %(subject)s AND m.version > %(version)s AND s.version > %(version)s
"""


def history(
    subject: str, key: str, *, after: str | None = None, limit: int = 10_000
) -> tuple[Points, str | None]:
    """Up to `limit` points in the order of step, time and value, and the cursor to go on with, None at the end.

    A cursor stays good while points are added: it names the last point, and how many it stood beside.
    """
    step, ms, beside = (int(part) for part in after.split(".")) if after else (-(2**63), -(2**63), 0)
    wanted = {"subject": subject, "key": key, "step": step, "ms": ms}
    points, first, most = NONE, 0, 4
    while True:
        found = rows(_FROM, {**wanted, "most": most})
        points = merged([codec.decode(payload, compacted) for compacted, payload in found])
        first = place(points, step, ms) + beside
        if len(points) - first > limit or len(found) < most:
            break
        most *= 8
    chosen = points[first : first + limit]
    page = _columns(key, chosen)
    if len(points) - first <= limit:
        return page, None
    step, ms = int(chosen["step"][-1]), int(chosen["at_ms"][-1])
    return page, f"{step}.{ms}.{first + len(chosen) - place(points, step, ms)}"


def by_time(subject: str, key: str, start: int = 0, stop: int | None = None) -> tuple[Points, int]:
    """The points from place `start` up to `stop` in the order of time, step and value, and how many there are."""
    batch, total = points_by_time(subject, key, start, stop)
    return _columns(key, batch), total


def points(
    subject: str, keys: Collection[str] | None = None, *, after_step: int | None = None
) -> dict[str, Points]:
    """Every point of these metrics, or of all, in order."""
    step = -(2**63) if after_step is None else after_step + 1
    names = None if keys is None else list(keys)
    found = _collected(rows(_POINTS, {"subject": subject, "keys": names, "step": step}))
    return {key: _columns(key, batch[place(batch, step, -(2**63)) :]) for key, batch in found.items()}


def _collected(found: Iterable[tuple[Any, ...]]) -> dict[str, Batch]:
    parts: dict[str, list[Batch]] = {}
    for key, compacted, payload in found:
        parts.setdefault(key, []).append(codec.decode(payload, compacted))
    return {key: merged(part) for key, part in sorted(parts.items())}


def _columns(key: str, batch: Batch) -> Points:
    return Points(key, batch["step"].tolist(), batch["value"].tolist(), batch["at_ms"].tolist())


def latest(subject: str, after: int = 0) -> Latest:
    """What was reported after this version, with earlier points where they share a segment."""
    [now] = version([subject])
    found = _collected(rows(_SINCE, {"subject": subject, "version": after}))
    return Latest({key: _columns(key, batch) for key, batch in found.items()}, now)


def silent_since(before_ms: int) -> int:
    """How many subjects have reported nothing since then."""
    return Subject.objects.filter(changed_ms__lt=before_ms).count() if before_ms else 0
