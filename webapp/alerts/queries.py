"""Reads of alerts, silences, rules and channels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Count, Q, QuerySet

from platform_core.alerting.announcements import Silence as SilenceValue
from platform_core.alerting.expression import ExpressionError, parse
from platform_core.alerting.machine import AlertState
from platform_core.alerting.measures import Unit
from platform_core.alerting.preview import Firing, in_order, would_have_fired
from platform_core.alerting.rules import Condition, Rule, Severity
from platform_core.errors import TrainmasterError
from platform_core.units import DAY_MS, MINUTE_MS
from webapp.accounts.permissions import Actor, may
from webapp.alerts import catalogue, mapping
from webapp.alerts.evaluation import last_evaluated_ms
from webapp.alerts.models import Alert, Channel, Notice, Sample, Silence
from webapp.alerts.readings import connections
from webapp.base.identity import now_ms
from webapp.jobs import queries as jobs
from webapp.nodes import queries as nodes
from webapp.serving import queries as serving

__all__ = ["Condition", "catalogue", "connections", "last_evaluated_ms"]
LOOKED_BACK_MS = 7 * DAY_MS
LATE_MS = 2 * MINUTE_MS
SHOWN = (AlertState.FIRING, AlertState.NO_DATA)


@dataclass(frozen=True, slots=True)
class Badge:
    """What stands in the frame of every page."""

    critical: int
    warning: int
    late: bool  # rules are not evaluated

    @property
    def count(self) -> int:
        return self.critical + self.warning


def visible(actor: Actor) -> QuerySet[Alert]:
    """Alerts of the cluster are everybody's, those of a team its people's; newest first."""
    rows = Alert.objects.order_by("-fired_ms", "-id")
    return rows if actor.is_admin else rows.filter(Q(team="") | Q(team__in=actor.teams))


def alert_for(actor: Actor, alert_id: str) -> Alert:
    alert = visible(actor).filter(id=alert_id).first()
    if alert is None:
        raise TrainmasterError("not_found", what=f"alert {alert_id}")
    return alert


def filtered(
    rows: QuerySet[Alert], *, state: str = "", team: str = "", severity: str = "", rule: str = ""
) -> QuerySet[Alert]:
    """`state` is one state, `open` for what fires or has no data, or `all` that ever fired."""
    if state == "open":
        rows = rows.filter(state__in=SHOWN)
    elif state and state != "all":
        rows = rows.filter(state=state)
    else:
        rows = rows.exclude(state=AlertState.PENDING)
    if team:
        rows = rows.filter(team="" if team == "-" else team)
    if severity:
        rows = rows.filter(severity=severity)
    return rows.filter(rule=rule) if rule else rows


def badge(actor: Actor) -> Badge:
    """Counts open alerts that nobody has acknowledged."""
    rows = visible(actor).order_by().filter(state__in=SHOWN, acknowledged_ms=None)
    counts = dict(rows.values_list("severity").annotate(alerts=Count("id")))
    last_ms = last_evaluated_ms()
    late = last_ms is not None and now_ms() - last_ms > LATE_MS
    return Badge(counts.get(Severity.CRITICAL, 0), counts.get(Severity.WARNING, 0), late)


def kind_of(alert: Alert) -> str:
    """What the subject of an alert is: job, endpoint, team, node or cluster."""
    if alert.team and alert.subject == alert.team:
        return "team"
    return subject_kind(alert.subject) or "cluster"


def subject_kind(subject: str) -> str:
    prefixes = {"job": "job", "node": "node", "ep": "endpoint"}
    return prefixes.get(subject.partition("-")[0], "") if "-" in subject else ""


def unit_of(alert: Alert) -> Unit:
    """The unit of its numbers; a rule that was deleted since counts plainly."""
    rule = next((entry.rule for entry in catalogue.entries() if entry.rule.code == alert.rule), None)
    return rule.condition.of.unit if rule else Unit.COUNT


def names(subjects: Sequence[str]) -> dict[str, str]:
    """Subject → what people call it; those that are gone keep their ids."""
    of_jobs = [subject for subject in subjects if subject_kind(subject) == "job"]
    of_nodes = [subject for subject in subjects if subject_kind(subject) == "node"]
    of_endpoints = [subject for subject in subjects if subject_kind(subject) == "endpoint"]
    return {**jobs.names(of_jobs), **nodes.hostnames(of_nodes), **serving.names(of_endpoints)}


def notices(alert: Alert) -> list[Notice]:
    """Who was told when, oldest first."""
    return list(alert.notices.select_related("channel").order_by("made_ms", "id"))


def silences(actor: Actor, at_ms: int, *, over: bool = False) -> list[Silence]:
    """Those that hold now, or with `over` also the newest that ended."""
    rows = Silence.objects.order_by("-until_ms", "-id")
    if not actor.is_admin:
        rows = rows.filter(Q(team=None) | Q(team__in=actor.teams))
    return list(rows[:100] if over else rows.filter(until_ms__gt=at_ms))


def silenced_until(alert: Alert, at_ms: int) -> int | None:
    """Until when nobody is told of this alert; None where people are."""
    standing = mapping.standing(alert, catalogue.retired(alert))
    held: Sequence[SilenceValue] = [
        mapping.silence(row) for row in Silence.objects.filter(until_ms__gt=at_ms)
    ]
    return max((silence.until_ms for silence in held if silence.covers(standing, at_ms)), default=None)


def channels(actor: Actor) -> list[Channel]:
    rows = Channel.objects.filter(deleted_ms=None).order_by("team", "name")
    return [row for row in rows if (may(actor, "alert.view", row.team_id) if row.team_id else actor.is_admin)]


def unreached(actor: Actor) -> list[str]:
    """Why nobody is told of alerts, in sentences for those who can change it: platform admins and leads."""
    teams = set(Channel.objects.filter(deleted_ms=None).values_list("team", flat=True))
    everywhere = Channel.objects.filter(deleted_ms=None, team=None, every_team=True).exists()
    sentences = []
    if actor.is_admin:
        if None not in teams:
            sentences.append(
                "No channel takes the alerts of the platform: nobody is told when it or a node fails."
            )
        if not settings.MAIL_URL:
            sentences.append(
                "TRAINMASTER_MAIL_URL is not set: no mail goes out, neither the weekly report nor a word to owners "
                "whose jobs have failed, starve, hang or idle."
            )
    elif not everywhere:
        bare = [team for team in actor.teams if team not in teams and may(actor, "alert.configure", team)]
        if bare:
            sentences.append(f"No channel takes the alerts of {', '.join(sorted(bare))}.")
    return sentences


def newest_notices(channels: Sequence[Channel]) -> dict[int, Notice]:
    """Channel → its newest notice."""
    rows = (
        Notice.objects.filter(channel__in=channels).order_by("channel", "-made_ms", "-id").distinct("channel")
    )
    return {row.channel_id: row for row in rows}


def preview(actor: Actor, rule: Rule, team: str, at_ms: int) -> Sequence[Firing]:
    """When the rule would have fired within the last week, over the samples that are kept, newest first.

    Without a team it looks at all that the actor may see.
    """
    rows = Sample.objects.filter(measure=rule.condition.measure, at_ms__gte=at_ms - LOOKED_BACK_MS)
    if team:
        rows = rows.filter(team=team)
    elif not actor.is_admin:
        rows = rows.filter(Q(team="") | Q(team__in=actor.teams))
    by_subject: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for subject, sampled_ms, value in rows.order_by("at_ms").values_list("subject", "at_ms", "value"):
        by_subject[subject].append((sampled_ms, value))
    found = [
        firing
        for subject, samples in by_subject.items()
        for firing in would_have_fired(rule, subject, samples, at_ms)
    ]
    return in_order(found)


def first_sample_ms(measure: str) -> int | None:
    return Sample.objects.filter(measure=measure).order_by("at_ms").values_list("at_ms", flat=True).first()


def parsed(text: str) -> Condition:
    try:
        return parse(text)
    except ExpressionError as error:
        raise TrainmasterError("request_invalid", what="The condition", why=str(error)) from error


def rule_to_try(condition: str) -> Rule:
    """A rule with this condition that is only tried. Raises request_invalid."""
    return Rule("tried", "Tried", parsed(condition), Severity.WARNING, "", "")


def entry(code: str) -> catalogue.Entry:
    found = next((entry for entry in catalogue.entries() if entry.rule.code == code), None)
    if found is None:
        raise TrainmasterError("not_found", what=f"alert rule {code}")
    return found


def counts() -> dict[tuple[str, str, str], int]:
    """(severity, state, team) → open alerts; pending ones are nobody's business yet."""
    rows = Alert.objects.filter(state__in=SHOWN).order_by().values_list("severity", "state", "team")
    return {(severity, state, team): count for severity, state, team, count in rows.annotate(Count("id"))}


def waiting_notices() -> int:
    return Notice.objects.exclude(next_try_ms=None).count()
