"""Ages as the database groups by them."""

from typing import Any

from django.db.models import Case, CharField, F, Value, When
from django.db.models.functions import Greatest
from django.db.models.lookups import GreaterThan

from platform_core.storage.holdings import UNDER_DAYS, Age
from platform_core.units import DAY_MS
from webapp.base.identity import now_ms


def age(*fields: str) -> Case:
    """The Age of rows since the latest of these times."""
    latest: Any = Greatest(*fields) if len(fields) > 1 else F(fields[0])
    limits = [(name, now_ms() - days * DAY_MS) for name, days in UNDER_DAYS.items()]
    whens = [When(GreaterThan(latest, limit), then=Value(name.value)) for name, limit in limits]
    return Case(*whens, default=Value(Age.OLDER.value), output_field=CharField())
