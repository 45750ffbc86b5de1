"""Owners hear of what is wrong with their own jobs and endpoints, whether or not their team has a channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.conf import settings
from django.urls import reverse

from platform_core.alerting.announcements import Announcement
from platform_core.alerting.machine import AlertState
from platform_core.alerting.measures import Kind
from webapp.accounts import mailing
from webapp.accounts.mailing import Letter
from webapp.alerts.models import Alert
from webapp.jobs import measures as jobs
from webapp.serving import measures as serving

IDLES = frozenset({"job_underused", "job_mostly_idle"})  # of which a warning of idle slots tells already


def write(announced: Sequence[Announcement], rows: Mapping[str, Alert]) -> None:
    """One mail for each alert that fires; its repetitions and its end are for those on call."""
    firing = [
        (announcement.rule.condition.of.kind, rows[alert_id])
        for announcement in announced
        if announcement.state is AlertState.FIRING
        for alert_id in announcement.alerts
    ]
    of_jobs = jobs.owners([alert.subject for kind, alert in firing if kind is Kind.JOB])
    of_endpoints = serving.owners([alert.subject for kind, alert in firing if kind is Kind.ENDPOINT])
    warned = {job_id for job_id, owner in of_jobs.items() if owner.warned}
    owners = {job_id: owner.user_id for job_id, owner in of_jobs.items()} | of_endpoints
    mailing.write(
        [
            _letter(alert, owners[alert.subject])
            for _, alert in firing
            if alert.subject in owners and not (alert.subject in warned and alert.rule in IDLES)
        ]
    )


def _letter(alert: Alert, user_id: int) -> Letter:
    page = f"{settings.PUBLIC_URL}{reverse('alerts:detail', args=[alert.id])}"
    text = f"{alert.sentence}\n\nWhat to do: {alert.remedy}\n\n{page}\n"
    subject = f"Trainmaster: {alert.title} ({alert.name})"
    return Letter(f"alert:{alert.id}", user_id, alert.team, mailing.Kind.ALERTS, subject, text)
