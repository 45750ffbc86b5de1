"""The outbox of notices: a row for each channel is written in the transaction of its cause, and sent by a task.

A refused notice is tried again with growing pauses. If the task dies after a receiver accepted a notice and before that
is recorded, it is sent once more under the same id, by which receivers recognise the duplicate.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from celery import current_app
from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.urls import reverse
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from platform_core.alerting.announcements import Announcement
from platform_core.alerting.machine import AlertState
from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, HOUR_MS, MINUTE_MS, format_duration_ms, plural
from webapp.alerts import mapping, sending
from webapp.alerts.models import Alert, Channel, Notice
from webapp.base import rounds
from webapp.base.identity import new_id, now_ms

log = logging.getLogger(__name__)
AT_ONCE = 100  # a beat later come the next
CLAIMED_MS = 5 * MINUTE_MS  # a try takes less
LONGEST_PAUSE_MS = HOUR_MS
GIVEN_UP_AFTER_MS = 3 * DAY_MS
KEPT_MS = 90 * DAY_MS
LISTED = 20  # alerts in one notice
_WORDS = {AlertState.FIRING: "", AlertState.NO_DATA: "No data: ", AlertState.RESOLVED: "Over: "}


def write(announced: Sequence[Announcement], rows: Mapping[str, Alert], at_ms: int) -> None:
    """Writes one notice for each announcement and each channel that takes it."""
    if not announced:
        return
    channels = [(row, mapping.target(row)) for row in Channel.objects.filter(deleted_ms=None)]
    for announcement in announced:
        alerts = [rows[alert_id] for alert_id in announcement.alerts]
        for channel, target in channels:
            if target.takes(announcement.team, announcement.rule.severity):
                _write(channel, announcement, alerts, at_ms)
    transaction.on_commit(hint)


def _write(channel: Channel, announcement: Announcement, alerts: Sequence[Alert], at_ms: int) -> None:
    notice = Notice.objects.create(
        id=new_id("notice"), channel=channel, state=announcement.state, title=_title(announcement, alerts),
        text=_text(announcement, alerts), made_ms=at_ms, next_try_ms=now_ms(),
    )  # fmt: skip
    notice.alerts.set(alerts)


def _title(announcement: Announcement, alerts: Sequence[Alert]) -> str:
    whose = f" ({announcement.team})" if announcement.team else ""
    many = f"{plural(len(alerts), 'alert')}: " if len(alerts) > 1 else ""
    title = alerts[0].title
    return f"{_WORDS[announcement.state]}{many}{title}{whose}"[:200]


def _text(announcement: Announcement, alerts: Sequence[Alert]) -> str:
    """What it means, the number and the limit, the remedy, and the link to each."""
    lines = []
    over = announcement.state is AlertState.RESOLVED
    for alert in alerts[:LISTED]:
        lines += [_after(alert) + alert.sentence if over else alert.sentence, url(alert), ""]
    if len(alerts) > LISTED:
        lines += [f"And {len(alerts) - LISTED:,} more: {settings.PUBLIC_URL}{reverse('alerts:list')}", ""]
    if over:
        lines.append("It is over; nothing has to be done.")
    elif announcement.state is AlertState.NO_DATA:
        lines.append("Its measure has had no value for a while, so nobody knows whether it is over.")
    else:
        lines += [
            f"Limit: {alerts[0].condition}. Severity: {alerts[0].severity}.",
            f"What to do: {alerts[0].remedy}",
        ]
        lines.append(f"Runbook: {settings.PUBLIC_URL}{reverse('alerts:runbook', args=[alerts[0].rule])}")
    return "\n".join(lines) + "\n"


def _after(alert: Alert) -> str:
    """How long it fired; its sentence has the last value that it had meanwhile."""
    lasted = format_duration_ms(alert.since_ms - (alert.fired_ms or alert.since_ms))
    return f"Over after {lasted}. Last reading: "


def url(alert: Alert) -> str:
    return f"{settings.PUBLIC_URL}{reverse('alerts:detail', args=[alert.id])}"


def hint() -> None:
    """Asks for a delivery at once. A lost hint costs at most one beat."""
    try:
        current_app.send_task("alerts.deliver", expires=10, retry=False)
    except (OperationalError, RedisError) as error:
        log.warning("the hint for a delivery was lost: %s", error)


def deliver() -> None:
    """Sends the notices that are due, and deletes old ones."""
    due = Notice.objects.filter(next_try_ms__lte=now_ms()).select_related("channel")
    rounds.each("notice", list(due.order_by("next_try_ms", "id")[:AT_ONCE]), _deliver)
    Notice.objects.filter(next_try_ms=None, made_ms__lt=now_ms() - KEPT_MS).delete()


def _deliver(notice: Notice) -> None:
    claim = Notice.objects.filter(pk=notice.pk, next_try_ms=notice.next_try_ms)
    if not claim.update(next_try_ms=now_ms() + CLAIMED_MS, tries=F("tries") + 1):
        return  # another worker has it
    if notice.channel.deleted_ms is not None:
        Notice.objects.filter(pk=notice.pk).update(next_try_ms=None, error="the channel was deleted")
        return
    try:
        sending.send(notice)
    except (sending.NotAccepted, TrainmasterError) as error:
        _postpone(notice, str(error))
    else:
        Notice.objects.filter(pk=notice.pk).update(next_try_ms=None, sent_ms=now_ms(), error="")


def _postpone(notice: Notice, reason: str) -> None:
    now = now_ms()
    over = now - notice.made_ms >= GIVEN_UP_AFTER_MS
    pause_ms = min((MINUTE_MS // 4) << min(notice.tries, 10), LONGEST_PAUSE_MS)
    Notice.objects.filter(pk=notice.pk).update(
        next_try_ms=None if over else now + pause_ms, error=reason[:200]
    )
    log.warning("notice %s was %s: %s", notice.pk, "given up" if over else "put off", reason[:200])
