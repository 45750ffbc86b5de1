"""One evaluation: load open alerts and readings, let the core decide, apply under the fencing number of a lease."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.core.cache import cache

from platform_core.alerting import announcements
from platform_core.alerting.announcements import Announcement
from platform_core.alerting.builtin import BY_CODE
from platform_core.alerting.machine import Alert, AlertState, Observation, advance
from platform_core.alerting.measures import MEASURES, Kind
from platform_core.alerting.rules import Rule
from platform_core.units import DAY_MS, MINUTE_MS
from webapp.alerts import catalogue, mapping, models, owners, readings
from webapp.alerts.notices import write
from webapp.alerts.values import Reading
from webapp.base import lease
from webapp.base.identity import new_id, now_ms
from webapp.base.lease import Fence
from webapp.base.rows import update_each
from webapp.events import services as events
from webapp.sockets import services as sockets

log = logging.getLogger(__name__)
LAST = "alerts:last-evaluation"
SAMPLE_MS, JOB_SAMPLE_MS = MINUTE_MS, 5 * MINUTE_MS
SAMPLES_KEPT_MS = 8 * DAY_MS
HISTORY_KEPT_MS = 90 * DAY_MS


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one alert. `row` None: it is new; `after` None: it never fired and is dropped."""

    rule: Rule
    reading: Reading
    row: models.Alert | None
    after: Alert | None


def evaluate(at_ms: int | None = None) -> bool:
    """Evaluates every rule once. False while another process does."""
    leadership = lease.acquire("alerts", lease.candidate())
    if leadership is None:
        return False
    try:
        _evaluate(now_ms() if at_ms is None else at_ms, partial(lease.fenced, leadership))
    except lease.LostLease as lost:
        log.info("evaluation dropped: %s", lost)
    finally:
        lease.release(leadership)
    return True


def last_evaluated_ms() -> int | None:
    return cache.get(LAST)


def _evaluate(at_ms: int, fence: Fence) -> None:
    rules = catalogue.rules()
    taken = readings.take(at_ms, {rule.condition.measure for rule in rules.values()})
    rows = list(models.Alert.objects.exclude(state=AlertState.RESOLVED))
    changes = [*_changes(rules, taken, rows, at_ms)]
    with fence():
        _apply(changes, at_ms)
        announce(rules, at_ms)
    with fence():
        _sample(taken, at_ms)
    cache.set(LAST, at_ms, None)


def _changes(
    rules: Mapping[str, Rule],
    taken: Mapping[str, Sequence[Reading] | None],
    rows: Sequence[models.Alert],
    at_ms: int,
) -> list[Change]:
    open_rows = {(row.rule, row.subject): row for row in rows}
    changes = []
    for rule in rules.values():
        read = taken[rule.condition.measure]
        if read is None:  # it could not be read: nothing is known of any of its subjects
            read = [Reading(None, row.subject, row.name, row.team) for row in rows if row.rule == rule.code]
        for reading in read:
            if rule.team and reading.team != rule.team:
                continue
            row = open_rows.pop((rule.code, reading.subject), None)
            changes.append(_change(rule, reading, row, Observation(at_ms, reading.value)))
    for row in open_rows.values():  # its subject is gone, or its rule
        rule = rules.get(row.rule) or BY_CODE.get(row.rule) or catalogue.retired(row)
        gone = Reading(None, row.subject, row.name, row.team)
        changes.append(_change(rule, gone, row, Observation(at_ms, None, exists=False)))
    return [change for change in changes if change.row is not None or change.after is not None]


def _change(rule: Rule, reading: Reading, row: models.Alert | None, seen: Observation) -> Change:
    return Change(rule, reading, row, advance(rule, mapping.alert(row) if row else None, seen))


def _apply(changes: Sequence[Change], at_ms: int) -> None:
    dropped = [change.row.pk for change in changes if change.row is not None and change.after is None]
    models.Alert.objects.filter(pk__in=dropped).delete()
    new = [_new(change) for change in changes if change.row is None]
    models.Alert.objects.bulk_create(new)
    updates = {
        change.row.pk: {**mapping.columns(change.after), **_words(change)}
        for change in changes
        if change.row is not None and change.after is not None
    }
    update_each(models.Alert, updates)
    turned = [change for change in changes if change.after is not None and _turned(change)]
    ids = {(row.rule, row.subject): row.pk for row in new}
    events.record_all([_happening(change, ids, at_ms) for change in turned])
    ended = [change for change in changes if change.row is not None and change.after is None]
    teams = {change.reading.team for change in (*turned, *ended)}
    for subject in {subject for team in teams for subject in mapping.subjects_of(team)}:
        sockets.publish(subject)


def _turned(change: Change) -> bool:
    """Whether people may see another state than before."""
    assert change.after is not None
    before = change.row.state if change.row else AlertState.PENDING
    return change.after.state != before


def _new(change: Change) -> models.Alert:
    assert change.after is not None
    return models.Alert(
        id=new_id("alert"), rule=change.rule.code, title=change.rule.title, severity=change.rule.severity,
        subject=change.reading.subject, name=change.reading.name, team=change.reading.team,
        remedy=change.rule.remedy, condition=change.rule.condition.words,
        **mapping.columns(change.after), **_words(change, new=True),
    )  # fmt: skip


def _words(change: Change, *, new: bool = False) -> dict[str, Any]:
    """The sentence with the newest numbers of what is wrong; where none are, the last one stays."""
    reading = change.reading
    if not new and (reading.value is None or not change.rule.condition.is_met(reading.value)):
        assert change.row is not None
        return {"sentence": change.row.sentence}
    return {"sentence": change.rule.says(reading.name, reading.team, reading.value, reading.detail)}


def _happening(change: Change, ids: Mapping[tuple[str, str], str], at_ms: int) -> events.Happening:
    assert change.after is not None
    alert_id = change.row.pk if change.row else ids[change.rule.code, change.reading.subject]
    sentence = _words(change, new=change.row is None)["sentence"]
    state = "".join(part.capitalize() for part in change.after.state.split("_"))
    return events.Happening(
        f"Alert{state}", f"alert:{alert_id}", "system", change.reading.team, sentence, at_ms,
        {"rule": change.rule.code, "title": change.rule.title, "subject": change.reading.subject},
    )  # fmt: skip


def announce(rules: Mapping[str, Rule], at_ms: int) -> None:
    """Writes the notices that are due. In the transaction of what caused them."""
    candidates = models.Alert.objects.exclude(state__in=(AlertState.PENDING, AlertState.RESOLVED))
    over = models.Alert.objects.filter(
        state=AlertState.RESOLVED, told__in=(AlertState.FIRING, AlertState.NO_DATA)
    )
    rows = {row.id: row for row in (*candidates, *over)}
    known = [
        mapping.standing(row, rules.get(row.rule) or BY_CODE.get(row.rule) or catalogue.retired(row))
        for row in rows.values()
    ]
    silences = [mapping.silence(row) for row in models.Silence.objects.filter(until_ms__gt=at_ms)]
    announced: Sequence[Announcement] = announcements.due(known, silences, at_ms)
    write(announced, rows, at_ms)
    owners.write(announced, rows)
    for announcement in announced:
        models.Alert.objects.filter(id__in=announcement.alerts).update(told=announcement.state, told_ms=at_ms)


def _sample(taken: Mapping[str, Sequence[Reading] | None], at_ms: int) -> None:
    """Keeps a value a minute, of jobs one in five minutes, and deletes those that are too old."""
    rows: dict[tuple[str, str], models.Sample] = {}
    begun: dict[int, bool] = defaultdict(bool)
    for name, read in taken.items():
        measure = MEASURES[name]
        every_ms = JOB_SAMPLE_MS if measure.kind is Kind.JOB else SAMPLE_MS
        if every_ms not in begun:
            begun[every_ms] = cache.add(
                f"alerts:sampled:{every_ms}:{at_ms // every_ms}", 1, 2 * every_ms // 1000
            )
        if begun[every_ms]:
            for reading in read or ():
                if reading.value is not None and reading.value >= measure.kept_from:
                    rows[name, reading.subject] = models.Sample(
                        measure=name,
                        subject=reading.subject,
                        team=reading.team,
                        at_ms=at_ms,
                        value=reading.value,
                    )
    models.Sample.objects.bulk_create(rows.values(), ignore_conflicts=True)
    if begun[SAMPLE_MS]:
        models.Sample.objects.filter(at_ms__lt=at_ms - SAMPLES_KEPT_MS).delete()
        over = models.Alert.objects.filter(state=AlertState.RESOLVED, since_ms__lt=at_ms - HISTORY_KEPT_MS)
        over.delete()
