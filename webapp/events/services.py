"""Events are written here and nowhere else; whoever watches their subject hears of them after the commit."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from webapp.base import tracing
from webapp.base.identity import now_ms
from webapp.events.models import Event
from webapp.sockets import services as sockets

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Happening:
    """What `record` takes, as a value, for those who append many."""

    kind: str
    subject: str
    actor: str
    team: str = ""
    cause: str = ""
    at_ms: int | None = None  # now
    data: Mapping[str, Any] = field(default_factory=dict)
    notify: tuple[str, ...] = ()


def record(
    kind: str,
    subject: str,
    *,
    actor: str,
    team: str = "",
    cause: str = "",
    at_ms: int | None = None,
    data: Mapping[str, Any] | None = None,
    notify: tuple[str, ...] = (),
) -> Event:
    """Append one event to the story of `subject` ("job:<id>") inside the caller's transaction.

    After the commit the subject itself, the audit log and every subject in `notify` are told that something changed.
    """
    return record_all([Happening(kind, subject, actor, team, cause, at_ms, data or {}, notify)])[0]


def record_all(happenings: Sequence[Happening]) -> list[Event]:
    """Append many in this order, in one statement."""
    now = now_ms()
    events = Event.objects.bulk_create([_event(each, now) for each in happenings])
    transaction.on_commit(lambda: _log(happenings))
    subjects = (
        name
        for each in happenings
        for name in (each.subject, "audit", *([f"audit:{each.team}"] if each.team else []), *each.notify)
    )
    for name in dict.fromkeys(subjects):
        sockets.publish(name)
    return events


def _log(happenings: Sequence[Happening]) -> None:
    for each in happenings:
        cause = f": {each.cause}" if each.cause else ""
        log.info("%s %s by %s%s", each.kind, each.subject.removeprefix("job:"), each.actor, cause)


def _event(happening: Happening, now: int) -> Event:
    kind, _, subject_id = happening.subject.partition(":")
    return Event(
        subject_kind=kind,
        subject_id=subject_id,
        kind=happening.kind,
        at_ms=now if happening.at_ms is None else happening.at_ms,
        actor=happening.actor,
        cause=happening.cause,
        team=happening.team,
        data=dict(happening.data) | ({"trace": trace} if (trace := tracing.current()) else {}),
    )


DELETED_AT_ONCE = 5_000


@transaction.atomic
def delete_before(before_ms: int) -> int:
    """Delete the oldest events, if they happened before then; the next call goes on. That it was done is an event."""
    oldest = Event.objects.order_by("id").values_list("id", "at_ms")[:DELETED_AT_ONCE]
    due = [key for key, at_ms in oldest if at_ms < before_ms]
    if due:
        Event.objects.filter(id__in=due).delete()
        record("EventsDeleted", "audit:events", actor="system", cause=f"{len(due)}, whose retention is over")
    return len(due)
