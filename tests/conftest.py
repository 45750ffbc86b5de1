"""What every test package shares. The databases start in tests/support/databases.py."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from tests.support import surroundings

# Property tests judge values, never the speed of the machine they happen to run on.
settings.register_profile("values", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("values")

# A platform is started once for all the tests of such a folder: run side by side, they stay together.
ONE_PLATFORM = ("tests/e2e/", "tests/operations/platform/", "tests/gpu/")
# What takes longest begins first, so that in the end no worker has a long file left and the others nothing.
FIRST = (*ONE_PLATFORM, "tests/agent/transfer/test_benchmarks.py", "tests/simulation/", "tests/agent/")


@pytest.fixture(scope="session", autouse=True)
def only_marked_tests_reach_the_database(django_db_blocker: Any) -> Iterator[None]:
    """pytest-django blocks by itself only when Django was loaded before the first conftest; ours loads later."""
    if django_db_blocker is None:  # nothing collected needs Django
        yield
        return
    with django_db_blocker.block():
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Where only a part of the tests is asked for, the process that hands them out has loaded their conftest.py, and so
    has databases. Its workers have their own, and must not find the addresses of these before they know better: their
    settings would be read from them, and the processes that they start would be told others."""
    surroundings.forget()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> "FilesTogether":
    return FilesTogether(config, log)


class FilesTogether(LoadScopeScheduling):  # type: ignore[misc]
    """Run side by side, the tests of a file stay in one process, and so do those that share a platform.

    `--dist loadgroup` would go by marks that xdist adds to the names of tests: pytest 9.2 has other names, silently."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    file = nodeid.partition("::")[0]
    return next((folder for folder in ONE_PLATFORM if file.startswith(folder)), file)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run side by side: after pytest-django, which brings to the front what needs a database."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: _place(item.nodeid))


def _place(nodeid: str) -> int:
    return next((place for place, start in enumerate(FIRST) if nodeid.startswith(start)), len(FIRST))
