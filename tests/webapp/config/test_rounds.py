"""In every coordinator, a subject that fails holds up none of those behind it."""

import importlib
import logging
from collections.abc import Callable
from typing import Any

import pytest
from billiard.exceptions import SoftTimeLimitExceeded
from django.db import connection
from django.db.models import QuerySet

from webapp.base import rounds
from webapp.base.lease import LostLease

# Module of the round, what begins it, and the work on one subject.
COORDINATORS = [
    ("webapp.deployments.coordination", "coordinate", "look_after"),
    ("webapp.rollouts.coordination", "coordinate", "advance"),
    ("webapp.serving.coordination", "coordinate", "advance"),
    ("webapp.sweeps.coordination", "coordinate", "driving.drive"),
    ("webapp.evaluations.coordination", "coordinate", "driving.drive"),
    ("webapp.retraining.coordination", "coordinate", "driving.drive"),
    ("webapp.registry.measuring", "follow_all", "_drive"),
    ("webapp.alerts.notices", "deliver", "_deliver"),
    ("webapp.serving.collecting", "publish_due", "_publish_due"),
    ("webapp.checkpoints.orders", "set_intervals", "accepts"),
]


class Subject(str):
    """Has whatever a round reads of a row."""

    def __getattr__(self, name: str) -> Any:
        return 0


@pytest.mark.parametrize(("module", "begins", "work"), COORDINATORS)
def test_a_poisoned_subject_holds_up_nobody(
    module: str, begins: str, work: str, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached: list[str] = []

    def worked(subject: Any, *_: Any) -> bool:
        if subject == "poisoned":
            raise ValueError("it cannot be read")
        reached.append(str(subject))
        return False

    both = (Subject("poisoned"), Subject("healthy"))
    with monkeypatch.context() as patched:
        for name in ("drift.look", "looking.look"):
            if hasattr(importlib.import_module(module), name.partition(".")[0]):
                patched.setattr(f"{module}.{name}", lambda *_: None)
        patched.setattr(QuerySet, "__iter__", lambda rows: iter(both))  # whatever rows a round asks for
        patched.setattr(QuerySet, "delete", lambda rows: (0, {}))
        patched.setattr(f"{module}.{work}", worked)
        getattr(importlib.import_module(module), begins)()
    assert reached == ["healthy"]


def fails_on(bad: str) -> Callable[[str], None]:
    def work(subject: str) -> None:
        if subject == bad:
            raise ValueError(subject)

    return work


def test_it_is_logged_in_full_once_and_then_counted(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(9):
        assert rounds.each("thing", ["bad", "good"], fails_on("bad")) == 1
    lines = [(record.levelno, bool(record.exc_info)) for record in caplog.records]
    assert lines == [(logging.ERROR, True), *[(logging.ERROR, False)] * 3]  # and after 2, 4 and 8 rounds
    assert caplog.records[-1].getMessage() == "thing bad has failed in 8 rounds in a row"


def test_what_fails_three_times_in_a_row_is_counted_until_it_works() -> None:
    for count in (0, 0, 1, 1):
        rounds.each("thing", ["bad", "good"], fails_on("bad"))
        assert rounds.failing() == count
    rounds.each("thing", ["bad", "good"], fails_on("none"))
    assert rounds.failing() == 0


@pytest.mark.parametrize("ends", [LostLease("old"), SoftTimeLimitExceeded()])
def test_a_round_that_is_over_goes_on_with_nobody(ends: Exception) -> None:
    seen: list[str] = []

    def work(subject: str) -> None:
        seen.append(subject)
        raise ends

    with pytest.raises(type(ends)):
        rounds.each("thing", ["first", "second"], work)
    assert seen == ["first"]


@pytest.mark.django_db(transaction=True)
def test_a_database_that_went_away_ends_the_round_and_a_refused_statement_does_not() -> None:
    seen: list[str] = []

    def refused(subject: str) -> None:
        seen.append(subject)
        connection.cursor().execute("SELECT no_such_column")

    assert rounds.each("thing", ["first", "second"], refused) == 0
    assert seen == ["first", "second"]
