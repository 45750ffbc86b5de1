import pytest
from django.db import connections


@pytest.fixture
def threads_that_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway's threads keep their connections for a minute: the next test would wait for them."""
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 0)
