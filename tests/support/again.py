"""What most tests begin with is made once by the services, and put back as it was for each later test."""

from collections.abc import Callable
from copy import deepcopy
from functools import wraps
from itertools import groupby
from typing import TypeVar

from django.apps import apps
from django.db.models import Model

from webapp.base.identity import now_ms
from webapp.events.models import Event

T = TypeVar("T")


def again(make: Callable[[], T]) -> Callable[[], T]:
    """The same rows with the same keys, in a statement a table; what they are was decided by `make`, in the first test.

    Its events happen anew. What is not a row, `make` must not leave behind."""
    made: list[tuple[T, list[Model]]] = []

    @wraps(make)
    def put_back() -> T:
        if not made:
            before = {(type(row), row.pk) for row in _every_row()}
            value = make()
            rows = [row for row in _every_row() if (type(row), row.pk) not in before]
            made.append(deepcopy((value, rows)))
            return value
        value, rows = deepcopy(made[0])
        for row in rows:
            if isinstance(row, Event):
                row.at_ms = now_ms()
        for model, its_rows in groupby(rows, type):
            model._default_manager.bulk_create(its_rows)
        return value

    return put_back


def _every_row() -> list[Model]:
    return [row for model in apps.get_models() for row in model._default_manager.order_by("pk")]
