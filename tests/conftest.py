"""What every test package shares. The databases start in tests/support/databases.py."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# Property tests judge values, never the speed of the machine they happen to run on.
settings.register_profile("values", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("values")

ONE_PLATFORM = "tests/e2e/"  # started once for all that come in by a browser


@pytest.fixture(scope="session", autouse=True)
def only_marked_tests_reach_the_database(django_db_blocker: Any) -> Iterator[None]:
    """pytest-django blocks by itself only when Django was loaded before the first conftest; ours loads later."""
    if django_db_blocker is None:  # nothing collected needs Django
        yield
        return
    with django_db_blocker.block():
        yield


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run side by side, a file stays together, and the one long line of tests goes first."""
    if not hasattr(config, "workerinput"):
        return
    items.sort(key=lambda item: not item.nodeid.startswith(ONE_PLATFORM))
    for item in items:
        file, _, _ = item.nodeid.partition("::")
        item.add_marker(pytest.mark.xdist_group(ONE_PLATFORM if file.startswith(ONE_PLATFORM) else file))
