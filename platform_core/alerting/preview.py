"""When a rule would have fired over samples that are kept: the same machine, run over the past."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from platform_core.alerting.machine import Alert, Observation, advance
from platform_core.alerting.rules import Rule


@dataclass(frozen=True, slots=True)
class Firing:
    subject: str
    fired_ms: int
    resolved_ms: int | None  # None: it would fire still
    worst: float


def would_have_fired(
    rule: Rule, subject: str, samples: Iterable[tuple[int, float]], to_ms: int
) -> list[Firing]:
    """`samples` are (time, value) in order of time. A subject that has no more of them counts as gone after a gap."""
    alert: Alert | None = None
    found: list[Firing] = []
    for at_ms, value in (*samples, (to_ms, None)):
        if alert is not None and at_ms - alert.seen_ms > rule.missing_after_ms + rule.condition.for_ms:
            _close(found, subject, advance(rule, alert, Observation(alert.seen_ms, None, exists=False)))
            alert = None
        alert = advance(rule, alert, Observation(at_ms, value))
        if alert is not None and alert.is_over:
            _close(found, subject, alert)
            alert = None
    if alert is not None and alert.fired_ms is not None:
        found.append(Firing(subject, alert.fired_ms, None, alert.worst))
    return found


def _close(found: list[Firing], subject: str, alert: Alert | None) -> None:
    if alert is not None and alert.fired_ms is not None:
        found.append(Firing(subject, alert.fired_ms, alert.since_ms, alert.worst))


def in_order(firings: Iterable[Firing]) -> Sequence[Firing]:
    return sorted(firings, key=lambda firing: (-firing.fired_ms, firing.subject))
