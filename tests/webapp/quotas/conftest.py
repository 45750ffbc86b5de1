"""These tests book use of attempts that no job has: the ledger is looked at on its own."""

from collections.abc import Callable

import pytest

from webapp.accounts.models import Team, User
from webapp.quotas import services
from webapp.quotas.services import Holding


@pytest.fixture
def books_agree(db: None) -> None:
    """Takes the place of the check that compares the ledger with the jobs that run."""


@pytest.fixture
def hold() -> Callable[..., None]:
    """hold(vision, owner, slots=2, at_ms=0): an attempt of a job of its own holds slots of a node from then on."""

    def book(
        team: Team, user: User, slots: int = 1, *, at_ms: int = 0, until_ms: int | None = None, job: str = "",
        node: str = "node-1", gpu_type: str = "cpu",
    ) -> None:  # fmt: skip
        book.count += 1  # type: ignore[attr-defined]
        attempt = f"att-{book.count}"  # type: ignore[attr-defined]
        holding = Holding(attempt, job or f"job-{attempt}", node, team.slug, user.pk, gpu_type, slots)
        services.open_entries([holding], at_ms)
        if until_ms is not None:
            services.close_entries({(attempt, node): until_ms})

    book.count = 0  # type: ignore[attr-defined]
    return book
