"""Events are written here and nowhere else; whoever watches their subject hears of them after the commit."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction

from webapp.live import outbox
from webapp.live.identity import now_ms
from webapp.live.models import Event


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
    subject_kind, _, subject_id = subject.partition(":")
    event = Event.objects.create(
        subject_kind=subject_kind,
        subject_id=subject_id,
        kind=kind,
        at_ms=now_ms() if at_ms is None else at_ms,
        actor=actor,
        cause=cause,
        team=team,
        data=dict(data or {}),
    )
    for name in (subject, "audit", *notify):
        publish(name)
    return event


def publish(subject: str, data: Mapping[str, Any] | None = None) -> None:
    """Tell the watchers of `subject`, after the commit, that it changed; `data` are small live values for the page.

    A hint: a page that misses it reads the truth at its next one. So a dead channel layer costs nothing but a log line.
    """
    transaction.on_commit(lambda: outbox.put(subject, dict(data or {})))
