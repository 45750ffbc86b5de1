"""Converts quota rows to the values of the core."""

from typing import Any

from platform_core.quotas.limits import Limits
from webapp.quotas.models import Quota


def limits(row: Quota | None) -> Limits | None:
    if row is None:
        return None
    return Limits(guaranteed=row.guaranteed, maximum=row.maximum, queue_beyond=row.queue_beyond)


def as_data(row: Quota | None) -> dict[str, Any] | None:
    """Returns the fields that the audit log keeps."""
    if row is None:
        return None
    return {"guaranteed": row.guaranteed, "maximum": row.maximum, "queue_beyond": row.queue_beyond}
