"""Mail about requests to use a dataset: to those who decide, and to who asked."""

from __future__ import annotations

from django.conf import settings
from django.urls import reverse

from platform_core.units import plural
from webapp.accounts import mailing
from webapp.accounts import queries as accounts
from webapp.accounts.mailing import Kind, Letter
from webapp.datasets.models import AccessRequest


def ask(row: AccessRequest) -> None:
    """To the owner of the dataset, or to the leads of its team where it has none. Belongs in the request's
    transaction."""
    dataset = row.dataset
    leads = [one.user_id for one in accounts.members(dataset.team_id) if one.role == "lead"]
    keys = [dataset.owner_id] if dataset.owner_id else leads
    text = f"{row.requested_by.username} requests {_use(row)}."
    if row.reason:
        text += f"\n\n{row.reason}"
    subject = f"Trainmaster: access to dataset {dataset.name} is requested"
    mailing.write(
        [
            Letter(
                f"access:{row.id}", key, dataset.team_id, Kind.FAILURES, subject, f"{text}\n\n{_page(row)}\n"
            )
            for key in keys
            if key != row.requested_by_id
        ]
    )


def answer(row: AccessRequest, days: int = 0) -> None:
    """To who asked. Belongs in the transaction of the decision."""
    if row.requested_by_id == row.decided_by_id or row.decided_by is None:
        return
    until = f" for {plural(days, 'day')}" if days else ""
    text = f"{row.decided_by.username} has {row.state} {_use(row)}{until}.\n\n{_page(row)}\n"
    subject = f"Trainmaster: access to dataset {row.dataset.name} is {row.state}"
    mailing.write(
        [
            Letter(
                f"access:{row.id}:{row.state}", row.requested_by_id, row.team_id, Kind.FAILURES, subject, text
            )
        ]
    )


def _use(row: AccessRequest) -> str:
    project = f", project {row.project}," if row.project else ""
    dataset = f"{row.dataset.team_id}/{row.dataset.name}"
    return f"the use of dataset {dataset} by team {row.team_id}{project} for {row.purpose}"


def _page(row: AccessRequest) -> str:
    return f"{settings.PUBLIC_URL}{reverse('datasets:detail', args=[row.dataset.team_id, row.dataset.name])}"
