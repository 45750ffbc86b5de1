import pytest

from tests.webapp.jobs.conftest import cluster, submit
from webapp.scheduling import predictions

__all__ = ["cluster", "submit"]


@pytest.fixture(autouse=True)
def forecasts_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on a machine so busy that they take long: in production they rest after that, and the next are left out."""
    monkeypatch.setattr(predictions, "rest_s", lambda took_s: 0)
