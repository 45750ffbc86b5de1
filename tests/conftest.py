"""What every test package shares. The databases start in tests/support/databases.py."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session", autouse=True)
def only_marked_tests_reach_the_database(django_db_blocker: Any) -> Iterator[None]:
    """pytest-django blocks by itself only when Django was loaded before the first conftest; ours loads later."""
    if django_db_blocker is None:  # nothing collected needs Django
        yield
        return
    with django_db_blocker.block():
        yield
