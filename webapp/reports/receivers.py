from typing import Any

from webapp.accounts import permissions
from webapp.accounts.queries import actor_of
from webapp.reports.models import Report


def may_watch(user: Any, report_id: str) -> bool:
    report = Report.objects.filter(id=report_id, deleted_ms=None).first()
    return report is not None and permissions.may(actor_of(user), "report.view", report.team_id)
