"""What people do with alerts: acknowledge, silence, write rules, set up channels."""

from __future__ import annotations

import re

import httpx
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from platform_core.alerting.expression import ExpressionError, parse
from platform_core.alerting.machine import AlertState
from platform_core.alerting.measures import Kind
from platform_core.alerting.rules import Severity
from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS
from webapp.accounts import permissions
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.accounts.sealing import seal
from webapp.alerts import catalogue, mapping, notices, queries
from webapp.alerts.evaluation import evaluate, last_evaluated_ms
from webapp.alerts.models import Alert, AlertRule, Channel, Notice, Silence
from webapp.alerts.notices import deliver
from webapp.base import outbound
from webapp.base.identity import new_id, now_ms
from webapp.events import services as events

__all__ = ["deliver", "evaluate"]
STAND_IN_AFTER_MS = 60_000
LONGEST_SILENCE_MS = 90 * DAY_MS
REASON_LENGTH, NOTE_LENGTH, TITLE_LENGTH, NAME_LENGTH, REMEDY_LENGTH = 300, 500, 120, 80, 500
MOST_ADDRESSES = 20
_CODE = re.compile(r"[a-z][a-z0-9_]{2,50}", re.ASCII)


def stand_in() -> bool:
    """Evaluates and delivers in place of the workers, if they have not for a minute: that they are away is an alert."""
    last_ms = last_evaluated_ms()
    if last_ms is None or now_ms() - last_ms < STAND_IN_AFTER_MS:
        return False
    evaluate()
    deliver()
    return True


def acknowledge(actor: Actor, alert_id: str, note: str = "") -> Alert:
    """Somebody looks after it: people are not told again until it is over."""
    with transaction.atomic():
        alert = _locked(alert_id, actor)
        if alert.state == AlertState.RESOLVED:
            raise TrainmasterError(
                "illegal_transition", subject=f"Alert {alert.id}", state=alert.state, event="acknowledging it"
            )
        alert.acknowledged_by, alert.acknowledged_ms = actor.username, now_ms()
        alert.note = _text(note, "The note", NOTE_LENGTH, least=0)
        alert.save(update_fields=["acknowledged_by", "acknowledged_ms", "note"])
        _record("AlertAcknowledged", f"alert:{alert.id}", actor, alert.team, alert.note or alert.title)
    return alert


def silence(
    actor: Actor, team: str, *, lasts_ms: int, reason: str, rule: str = "", subject: str = ""
) -> Silence:
    """Nobody is told of matching alerts for so long. `team` "": of the cluster and of all teams, for admins."""
    _require(actor, "alert.handle", team)
    reason = _text(reason, "The reason", REASON_LENGTH)
    if not 60_000 <= lasts_ms <= LONGEST_SILENCE_MS:
        raise _invalid("The silence", "it must last from 1 minute to 90 days")
    if rule and rule not in {entry.rule.code for entry in catalogue.entries()}:
        raise _invalid(f"rule {rule!r}", "there is no such rule; the page of rules lists them")
    now = now_ms()
    with transaction.atomic():
        row = Silence.objects.create(
            team_id=team or None, rule=rule, subject=_text(subject, "The subject", 140, least=0),
            from_ms=now, until_ms=now + lasts_ms, reason=reason, made_by=actor.username,
        )  # fmt: skip
        _record("AlertSilenced", f"silence:{row.pk}", actor, team, reason)
    return row


def end_silence(actor: Actor, silence_id: int) -> None:
    with transaction.atomic():
        row = Silence.objects.select_for_update(of=("self",)).filter(pk=silence_id).first()
        if row is None:
            raise TrainmasterError("not_found", what=f"silence {silence_id}")
        _require(actor, "alert.handle", row.team_id or "", what=f"silence {silence_id}")
        if row.until_ms > now_ms():
            Silence.objects.filter(pk=silence_id).update(until_ms=now_ms(), ended_by=actor.username)
            _record("AlertSilenceEnded", f"silence:{row.pk}", actor, row.team_id or "", row.reason)


def save_rule(
    actor: Actor, team: str, code: str, *, title: str, condition: str, severity: str, remedy: str = "",
    enabled: bool = True,
) -> AlertRule:  # fmt: skip
    """Writes a rule of a team, or one of operators with team "". With the code of a built-in rule it changes that."""
    _require(actor, "alert.configure", team)
    if not _CODE.fullmatch(code):
        raise _invalid(f"code {code!r}", "use 3 to 51 small letters, digits and _, and begin with a letter")
    if catalogue.is_built_in(code) and team:
        raise _invalid(
            f"code {code!r}", "it is the code of a built-in rule, which operators change; choose another"
        )
    parsed = _condition(condition)
    if team and parsed.of.kind not in (Kind.JOB, Kind.TEAM, Kind.ENDPOINT):
        raise _invalid(
            f"measure {parsed.measure}", "a rule of a team needs a measure of jobs, endpoints or teams"
        )
    values = {
        "title": _text(title, "The title", TITLE_LENGTH), "condition": condition.strip(),
        "severity": _severity(severity), "remedy": _text(remedy, "The remedy", REMEDY_LENGTH, least=0),
        "enabled": enabled, "changed_by_id": accounts.user_key(actor.username), "changed_ms": now_ms(),
    }  # fmt: skip
    with transaction.atomic():
        row = AlertRule.objects.select_for_update(of=("self",)).filter(code=code).first()
        if row is not None and (row.team_id or "") != team:
            raise TrainmasterError("duplicate_name", what="The rule", name=code)
        row, _ = AlertRule.objects.update_or_create(code=code, defaults={"team_id": team or None, **values})
        _record("AlertRuleChanged", f"alert-rule:{code}", actor, team, f"{title}: {condition.strip()}")
    return row


def delete_rule(actor: Actor, code: str) -> None:
    """Deletes a rule; one with the code of a built-in rule leaves that as it was made."""
    row = AlertRule.objects.filter(code=code).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"changed or added alert rule {code}")
    _require(actor, "alert.configure", row.team_id or "", what=f"changed or added alert rule {code}")
    with transaction.atomic():
        AlertRule.objects.filter(pk=row.pk).delete()
        _record("AlertRuleDeleted", f"alert-rule:{code}", actor, row.team_id or "", row.title)


def add_channel(
    actor: Actor, team: str, name: str, kind: str, address: str, *, key: str = "", least: str = "warning",
    every_team: bool = False,
) -> Channel:  # fmt: skip
    _require(actor, "alert.configure", team)
    if kind not in Channel.Kind.values:
        raise _invalid(f"kind {kind!r}", f"it must be one of {', '.join(Channel.Kind.values)}")
    address, shown = _mail_addresses(address) if kind == Channel.Kind.MAIL else _url(address, kind)
    key = _text(key, "The key", 200, least=0)
    if kind == Channel.Kind.PAGERDUTY and not key:
        raise _invalid("The key", "PagerDuty needs the routing key of an Events API v2 integration")
    try:
        with transaction.atomic():
            row = Channel.objects.create(
                team_id=team or None, name=_text(name, "The name", NAME_LENGTH), kind=kind, address=seal(address),
                shown=shown, key=seal(key) if key else b"", least=_severity(least),
                every_team=every_team and not team, made_by=actor.username, made_ms=now_ms(),
            )  # fmt: skip
            _record(
                "AlertChannelAdded", f"alert-channel:{row.pk}", actor, team, f"{row.name} ({kind}, {shown})"
            )
    except IntegrityError as error:
        raise TrainmasterError("duplicate_name", what="The channel", name=name.strip()) from error
    return row


def delete_channel(actor: Actor, channel_id: int) -> None:
    """What was sent to it stays in the history of the alerts."""
    row = _channel(actor, channel_id)
    with transaction.atomic():
        Channel.objects.filter(pk=row.pk).update(deleted_ms=now_ms(), address=b"", key=b"")
        _record("AlertChannelDeleted", f"alert-channel:{row.pk}", actor, row.team_id or "", row.name)


def send_test(actor: Actor, channel_id: int) -> Notice:
    """Writes a notice that says it is a test; how it went stands on the page of channels."""
    row = _channel(actor, channel_id)
    text = f"{actor.username} tests the channel {row.name}. Nothing has to be done.\n"
    now = now_ms()
    with transaction.atomic():
        notice = Notice.objects.create(
            id=new_id("notice"), channel=row, state="", title="Test of a channel", text=text, made_ms=now,
            next_try_ms=now,
        )  # fmt: skip
        transaction.on_commit(notices.hint)
    return notice


def _channel(actor: Actor, channel_id: int) -> Channel:
    row = Channel.objects.filter(pk=channel_id, deleted_ms=None).first()
    if row is None:
        raise TrainmasterError("not_found", what=f"alert channel {channel_id}")
    _require(actor, "alert.configure", row.team_id or "", what=f"alert channel {channel_id}")
    return row


def _locked(alert_id: str, actor: Actor) -> Alert:
    queries.alert_for(actor, alert_id)
    alert = Alert.objects.select_for_update().get(id=alert_id)
    _require(actor, "alert.handle", alert.team, what=f"alert {alert_id}")
    return alert


def _require(actor: Actor, action: str, team: str, what: str = "") -> None:
    """What belongs to no team is the operators'."""
    if team:
        permissions.require(actor, action, team, what=what)
    else:
        permissions.require(actor, "platform.manage", what=what)


def _condition(text: str) -> queries.Condition:
    try:
        return parse(text)
    except ExpressionError as error:
        raise TrainmasterError("request_invalid", what="The condition", why=str(error)) from error


def _severity(text: str) -> str:
    if text not in set(Severity):
        raise _invalid(f"severity {text!r}", f"it must be one of {', '.join(Severity)}")
    return text


def _mail_addresses(text: str) -> tuple[str, str]:
    addresses = text.replace(",", " ").split()
    if not 1 <= len(addresses) <= MOST_ADDRESSES:
        raise _invalid("The addresses", f"write 1 to {MOST_ADDRESSES} mail addresses, separated by spaces")
    for address in addresses:
        try:
            validate_email(address)
        except ValidationError as error:
            raise _invalid(f"address {address[:100]!r}", "it is not a mail address") from error
    return " ".join(addresses), ", ".join(addresses)[:200]


def _url(text: str, kind: str) -> tuple[str, str]:
    """The URL and its host, which is all of it that is shown: paths of webhooks are secret."""
    if not text.strip() and kind == Channel.Kind.PAGERDUTY:
        return "", "events.pagerduty.com"
    try:
        url = httpx.URL(text.strip())
    except (httpx.InvalidURL, TypeError) as error:
        raise _invalid(
            "The URL", "it cannot be read; write one such as https://hooks.example/T1/B2"
        ) from error
    if url.scheme not in ("https", "http") or not url.host or len(text) > 2000 or url.userinfo:
        raise _invalid("The URL", "it must begin with https:// or http://, have a host and no password")
    outbound.resolve(url.host, url.port or (443 if url.scheme == "https" else 80))
    return str(url), url.host[:200]


def _text(text: str, what: str, longest: int, least: int = 1) -> str:
    text = " ".join(text.split())
    if not least <= len(text) <= longest or "\0" in text:
        raise _invalid(what, f"it must have {least} to {longest} characters")
    return text


def _invalid(what: str, why: str) -> TrainmasterError:
    return TrainmasterError("request_invalid", what=what, why=why)


def _record(kind: str, subject: str, actor: Actor, team: str, cause: str) -> None:
    events.record(kind, subject, actor=actor.name, team=team, cause=cause, notify=mapping.subjects_of(team))
