"""The rules that are in force: the built-in ones as operators changed them, and those that people wrote."""

import logging
from dataclasses import dataclass, replace

from platform_core.alerting.builtin import BY_CODE, RULES
from platform_core.alerting.expression import ExpressionError, parse
from platform_core.alerting.rules import Rule, Severity
from webapp.alerts import mapping
from webapp.alerts.models import Alert, AlertRule

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry:
    rule: Rule
    enabled: bool
    built_in: bool
    changed_by: str = ""
    changed_ms: int | None = None


def entries() -> list[Entry]:
    """Built-in rules in their order, then those of people by their code."""
    rows = {row.code: row for row in AlertRule.objects.select_related("changed_by")}
    found = [_built_in(rule, rows.pop(rule.code, None)) for rule in RULES]
    for code in sorted(rows):
        try:
            found.append(_of_people(rows[code]))
        except ExpressionError as error:
            log.warning("alert rule %s is left out: %s", code, error)
    return found


def rules() -> dict[str, Rule]:
    return {entry.rule.code: entry.rule for entry in entries() if entry.enabled}


def _built_in(rule: Rule, row: AlertRule | None) -> Entry:
    if row is None:
        return Entry(rule, enabled=True, built_in=True)
    changed = rule
    try:
        changed = replace(rule, condition=parse(row.condition), severity=Severity(row.severity))
    except ExpressionError as error:
        log.warning("the change of alert rule %s is left out: %s", rule.code, error)
    return Entry(changed, row.enabled, True, row.changed_by.username, row.changed_ms)


def _of_people(row: AlertRule) -> Entry:
    return Entry(mapping.rule(row), row.enabled, False, row.changed_by.username, row.changed_ms)


def is_built_in(code: str) -> bool:
    return code in BY_CODE


def retired(row: Alert) -> Rule:
    """The rule of an alert whose rule was deleted since: enough of it to end the alert."""
    return replace(RULES[0], code=row.rule, title=row.title, severity=Severity(row.severity), inhibited_by=())
