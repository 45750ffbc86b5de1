"""Quota rows as the values the core decides with."""

from typing import Any

from platform_core.quotas.limits import Limits
from webapp.quotas.models import Quota


def limits(row: Quota | None) -> Limits | None:
    if row is None:
        return None
    return Limits(guaranteed=row.guaranteed, maximum=row.maximum, queue_beyond=row.queue_beyond)


def as_data(row: Quota | None) -> dict[str, Any] | None:
    """As the audit log keeps it."""
    if row is None:
        return None
    return {"guaranteed": row.guaranteed, "maximum": row.maximum, "queue_beyond": row.queue_beyond}
