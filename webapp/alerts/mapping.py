"""Rows of alerts, silences and channels to values of the core, and back."""

from typing import Any

from platform_core.alerting import announcements
from platform_core.alerting.expression import parse
from platform_core.alerting.machine import Alert, AlertState
from platform_core.alerting.rules import Rule, Severity
from webapp.alerts import models

FIELDS = ("since_ms", "began_ms", "seen_ms", "value", "worst", "fired_ms", "clearing_ms")


def alert(row: models.Alert) -> Alert:
    return Alert(AlertState(row.state), **{name: getattr(row, name) for name in FIELDS})


def columns(alert: Alert) -> dict[str, Any]:
    return {"state": alert.state, **{name: getattr(alert, name) for name in FIELDS}}


def standing(row: models.Alert, rule: Rule) -> announcements.Standing:
    return announcements.Standing(
        row.id, rule, row.subject, row.team, AlertState(row.state),
        told=AlertState(row.told) if row.told else None, told_ms=row.told_ms,
        acknowledged=row.acknowledged_ms is not None,
    )  # fmt: skip


def silence(row: models.Silence) -> announcements.Silence:
    return announcements.Silence(row.until_ms, row.from_ms, row.team_id or "", row.rule, row.subject)


def target(row: models.Channel) -> announcements.Target:
    return announcements.Target(row.pk, row.team_id or "", Severity(row.least), row.every_team)


def rule(row: models.AlertRule) -> Rule:
    """Raises ExpressionError for a condition that this version does not know any more."""
    condition = parse(row.condition)
    whose = "{name} of {team}" if condition.of.kind.value == "job" else "{name}"
    shown = f"{whose}: " if condition.of.kind.value != "cluster" else ""
    meaning = f"{shown}{condition.of.words} is {{value}}, {condition.comparison.words} {{limit}}."
    return Rule(
        row.code, row.title, condition, Severity(row.severity), meaning, row.remedy, team=row.team_id or ""
    )


def subjects_of(team: str) -> tuple[str, ...]:
    """Who hears live of a change: everybody of the cluster's alerts, people of a team of theirs, admins of all."""
    return (f"alerts:{team}" if team else "alerts", "alerts:*")
