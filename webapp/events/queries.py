from collections.abc import Collection
from typing import Any

from django.db.models import Count

from webapp.events.models import Event


def story(subject: str, limit: int = 500, without: Collection[str] = ()) -> list[Event]:
    """The last that happened to one subject, of other kinds than these, oldest first."""
    kind, _, subject_id = subject.partition(":")
    events = Event.objects.filter(subject_kind=kind, subject_id=subject_id).exclude(kind__in=without)
    return list(events.order_by("-id")[:limit])[::-1]


def recent(
    teams: list[str] | None,
    before: int | None = None,
    limit: int = 50,
    kind: str = "",
    actor: str = "",
    subject: str = "",
    without: Collection[str] = (),
) -> list[Event]:
    """The audit log, newest first; `teams` None means every team and the platform's own events."""
    events = Event.objects.exclude(kind__in=without).order_by("-id")
    if teams is not None:
        events = events.filter(team__in=teams)
    if before is not None:
        events = events.filter(id__lt=before)
    if kind:
        events = events.filter(kind=kind)
    if actor:
        events = events.filter(actor__icontains=actor)
    if subject:
        events = events.filter(subject_id__icontains=subject.rpartition(":")[2])
    return list(events[:limit])


def of_team(team: str, subject_kinds: tuple[str, ...], limit: int = 50) -> list[Event]:
    """What happened lately to these kinds of subjects of one team, newest first."""
    return list(Event.objects.filter(team=team, subject_kind__in=subject_kinds).order_by("-id")[:limit])


def counts(kinds: Collection[str], teams: list[str] | None) -> dict[tuple[str, str], int]:
    """(kind, team) → how often that has happened."""
    events = Event.objects.filter(kind__in=kinds)
    if teams is not None:
        events = events.filter(team__in=teams)
    rows = events.order_by().values_list("kind", "team").annotate(Count("id"))
    return {(kind, team): count for kind, team, count in rows}


def happened(kind: str, subject_kind: str, subject_ids: Collection[str]) -> dict[str, int]:
    """How often that has happened to each of these subjects; those to which it has not are left out."""
    events = Event.objects.filter(kind=kind, subject_kind=subject_kind, subject_id__in=list(subject_ids))
    return dict(events.order_by().values_list("subject_id").annotate(Count("id")))


def moments(kind: str, subject: str, limit: int) -> list[tuple[int, dict[str, Any]]]:
    """When that happened to a subject, with its data; the newest first."""
    subject_kind, _, subject_id = subject.partition(":")
    rows = Event.objects.filter(subject_kind=subject_kind, subject_id=subject_id, kind=kind).order_by("-id")
    return list(rows.values_list("at_ms", "data")[:limit])


def since(kind: str, subject_kind: str, at_ms: int) -> list[tuple[str, dict[str, Any]]]:
    """To which subjects that has happened since then, with its data."""
    rows = Event.objects.filter(kind=kind, subject_kind=subject_kind, at_ms__gte=at_ms)
    return list(rows.order_by("id").values_list("subject_id", "data"))


def count(kind: str, subject_kind: str, from_ms: int, to_ms: int) -> int:
    """How often that happened in the time."""
    rows = Event.objects.filter(kind=kind, subject_kind=subject_kind, at_ms__gte=from_ms, at_ms__lt=to_ms)
    return rows.count()


def kinds() -> list[str]:
    return list(Event.objects.order_by("kind").values_list("kind", flat=True).distinct())


def expired(before_ms: int) -> int:
    """How many happened before then."""
    return Event.objects.filter(at_ms__lt=before_ms).count() if before_ms else 0
