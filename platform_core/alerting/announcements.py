"""Which alerts people are told of now: those that changed since they were last told, not silenced, not explained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from platform_core.alerting.machine import AlertState
from platform_core.alerting.rules import Rule, Severity


@dataclass(frozen=True, slots=True)
class Standing:
    """An alert, and what people were last told of it."""

    id: str
    rule: Rule
    subject: str
    team: str
    state: AlertState
    told: AlertState | None = None
    told_ms: int = 0
    acknowledged: bool = False


@dataclass(frozen=True, slots=True)
class Silence:
    """Nobody is told of matching alerts until then. An empty field matches all."""

    until_ms: int
    from_ms: int = 0
    team: str = ""
    rule: str = ""
    subject: str = ""

    def covers(self, alert: Standing, at_ms: int) -> bool:
        if not self.from_ms <= at_ms < self.until_ms:
            return False
        return all(
            wanted in ("", value)
            for wanted, value in (
                (self.team, alert.team),
                (self.rule, alert.rule.code),
                (self.subject, alert.subject),
            )
        )


@dataclass(frozen=True, slots=True)
class Target:
    """Where notices go: to the people on call for a team or, with "", for the platform."""

    id: int
    team: str = ""
    least: Severity = Severity.WARNING
    every_team: bool = False  # an operator's target that also gets the alerts of teams

    def takes(self, team: str, severity: Severity) -> bool:
        concerns = self.team == team or (self.every_team and not self.team)
        return concerns and severity.rank >= self.least.rank


@dataclass(frozen=True, slots=True)
class Announcement:
    """One notice: the alerts of a rule and a team that have come to the same state."""

    rule: Rule
    team: str
    state: AlertState
    alerts: tuple[str, ...]


def is_inhibited(alert: Standing, firing: Mapping[str, frozenset[str]]) -> bool:
    """Whether a firing alert of another rule explains it: of the same subject, or of the platform as a whole.

    `firing` maps the code of a rule to the subjects of its firing alerts.
    """
    for code in alert.rule.inhibited_by:
        subjects = firing.get(code, frozenset())
        if alert.subject in subjects or "" in subjects:
            return True
    return False


def firing_subjects(alerts: Iterable[Standing]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for alert in alerts:
        if alert.state is AlertState.FIRING:
            found[alert.rule.code].add(alert.subject)
    return {code: frozenset(subjects) for code, subjects in found.items()}


def due(alerts: Sequence[Standing], silences: Sequence[Silence], at_ms: int) -> tuple[Announcement, ...]:
    """Returns what is to be told now, grouped by rule, team and state, critical ones first."""
    firing = firing_subjects(alerts)
    groups: dict[tuple[str, str, AlertState], list[Standing]] = defaultdict(list)
    for alert in alerts:
        if _is_due(alert, silences, firing, at_ms):
            groups[alert.rule.code, alert.team, alert.state].append(alert)
    announcements = [
        Announcement(group[0].rule, team, state, tuple(sorted(alert.id for alert in group)))
        for (_, team, state), group in groups.items()
    ]
    return tuple(sorted(announcements, key=lambda a: (-a.rule.severity.rank, a.rule.code, a.team, a.state)))


def _is_due(
    alert: Standing, silences: Sequence[Silence], firing: Mapping[str, frozenset[str]], at_ms: int
) -> bool:
    if alert.state is AlertState.PENDING:
        return False
    if alert.state is AlertState.RESOLVED:  # whoever was told that it began is told that it is over
        return alert.told in (AlertState.FIRING, AlertState.NO_DATA)
    if alert.told is alert.state:
        again = alert.rule.repeat_ms and at_ms - alert.told_ms >= alert.rule.repeat_ms
        if not again or alert.acknowledged:
            return False
    if is_inhibited(alert, firing):
        return False
    return not any(silence.covers(alert, at_ms) for silence in silences)
