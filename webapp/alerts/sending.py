"""One notice to one channel: as mail, or as a POST in the form that the receiver knows."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from platform_core.alerting.machine import AlertState
from webapp.accounts import mailing, sealing
from webapp.alerts.models import Alert, Channel, Notice
from webapp.base import outbound
from webapp.base.identity import now_ms

SECONDS = 10
PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"


class NotAccepted(Exception):
    """The receiver did not take the notice; the text repeats nothing that it sent."""


def send(notice: Notice) -> None:
    """Raises NotAccepted, or a refusal of the address, for a notice that has to be tried again."""
    channel = notice.channel
    address = sealing.unseal(bytes(channel.address), f"of channel {channel.name}")
    key = sealing.unseal(bytes(channel.key), f"of channel {channel.name}") if channel.key else ""
    match channel.kind:
        case Channel.Kind.MAIL:
            _mail(notice, address)
        case Channel.Kind.SLACK:
            _post(address, {"text": f"*{notice.title}*\n{notice.text}"}, notice.id)
        case Channel.Kind.PAGERDUTY:
            for alert in _alerts(notice):
                _post(address or PAGERDUTY, _for_pagerduty(notice, alert, key), notice.id)
        case _:
            _post(address, _document(notice), notice.id, key)


def _mail(notice: Notice, addresses: str) -> None:
    """Hands it to the outbox of mails, which keeps one mail of a key for each address."""
    if not settings.MAIL_URL:
        raise NotAccepted("TRAINMASTER_MAIL_URL is not set: no mail can be sent")
    mailing.write_to(addresses.split(), f"notice:{notice.id}", f"Trainmaster: {notice.title}", notice.text)


def _alerts(notice: Notice) -> list[Alert | None]:
    return [*notice.alerts.order_by("id")] or [None]  # a test has none


def _document(notice: Notice) -> dict[str, Any]:
    return {
        "id": notice.id, "state": notice.state or "test", "title": notice.title, "text": notice.text,
        "made_ms": notice.made_ms,
        "alerts": [_alert(alert) for alert in _alerts(notice) if alert is not None],
    }  # fmt: skip


def _alert(alert: Alert) -> dict[str, Any]:
    names = (
        "id",
        "rule",
        "severity",
        "subject",
        "name",
        "team",
        "sentence",
        "remedy",
        "condition",
        "state",
        "value",
    )
    return {name: getattr(alert, name) for name in (*names, "fired_ms")}


def _for_pagerduty(notice: Notice, alert: Alert | None, routing_key: str) -> dict[str, Any]:
    """Events API v2. Its incident is one alert: the same key triggers and resolves it, however often it comes."""
    over = notice.state == AlertState.RESOLVED
    return {
        "routing_key": routing_key,
        "event_action": "resolve" if over else "trigger",
        "dedup_key": alert.id if alert else notice.id,
        "payload": {
            "summary": (alert.sentence if alert else notice.title)[:1024],
            "source": (alert.name or "cluster") if alert else "Trainmaster",
            "severity": alert.severity if alert else "info",
            "custom_details": _alert(alert) if alert else {},
        },
    }


def _post(address: str, document: dict[str, Any], notice_id: str, key: str = "") -> None:
    """Follows no redirect, and needs no more of the answer than its status."""
    body = json.dumps(document, separators=(",", ":")).encode()
    headers = {
        "Content-Type": "application/json", "X-Trainmaster-Notice": notice_id,
        **(signature(key, body, now_ms()) if key else {}),
    }  # fmt: skip
    try:
        answer = outbound.request("POST", address, headers=headers, content=body, deadline=SECONDS)
    except outbound.NoAnswer as error:
        raise NotAccepted(str(error)) from error
    if not answer.is_success:
        raise NotAccepted(f"{urlsplit(address).hostname} answered {answer.status}")


def signature(key: str, body: bytes, at_ms: int) -> dict[str, str]:
    """The receiver computes the same HMAC-SHA256 over the time, a dot and the body, and refuses old times."""
    digest = hmac.new(key.encode(), f"{at_ms}.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Trainmaster-Time": str(at_ms), "X-Trainmaster-Signature": f"sha256={digest}"}
