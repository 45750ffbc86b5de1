"""A line that repeats is counted, an outage is one sentence, and no flood fills a disk or the memory."""

import io
import logging
from collections.abc import Callable

import psycopg
import pytest
import redis
from django.db.utils import InterfaceError, OperationalError
from kombu.exceptions import OperationalError as BrokerError

from trainmaster.repeated_logs import AT_FIRST, MOST_LINES, PERIOD_S, CountingHandler


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Written:
    def __init__(self) -> None:
        self.clock, self.stream = Clock(), io.StringIO()
        self.handler = CountingHandler(self.stream, self.clock)
        self.log = logging.Logger("flood")
        self.log.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def written() -> Written:
    return Written()


def test_a_warning_that_repeats_is_counted(written: Written) -> None:
    for number in range(243):
        written.log.warning("beat %d cannot send", number)
    assert len(written.lines) == AT_FIRST
    written.clock.now = PERIOD_S
    written.log.warning("beat 244 cannot send")
    assert written.lines[AT_FIRST] == "beat 0 cannot send … 240 times more in the last minute"
    assert written.lines[-1] == "beat 244 cannot send"


def test_it_is_said_although_something_else_is_logged_next(written: Written) -> None:
    for _ in range(AT_FIRST + 1):
        written.log.error("away")
    written.clock.now = PERIOD_S
    written.log.info("all is well")
    assert written.lines[-2:] == ["away … 1 times more in the last minute", "all is well"]


def test_what_is_no_warning_and_what_differs_is_written(written: Written) -> None:
    for _ in range(10):
        written.log.info("GET answered 200")
    for name in ("red", "green", "blue", "black", "white"):
        written.log.warning("%s is late", name)
    assert len(written.lines) == 15


def test_the_memory_of_lines_is_bounded(written: Written) -> None:
    for number in range(3 * MOST_LINES):
        written.log.warning("%s is late", "x" * (number % 199) + chr(0x4E00 + number))
    assert len(written.handler._lines) <= MOST_LINES + 1


def of_django() -> Exception:
    error = OperationalError("connection refused")
    error.__cause__ = psycopg.OperationalError("connection refused")
    return error


@pytest.mark.parametrize(
    "make",
    [of_django, lambda: InterfaceError("connection already closed"), lambda: redis.ConnectionError("Error 111"),
     lambda: redis.TimeoutError("timed out"), lambda: BrokerError("Error 111")],
)  # fmt: skip
def test_an_outage_is_one_sentence(written: Written, make: Callable[[], Exception]) -> None:
    try:
        raise make()
    except Exception:
        written.log.exception("the heartbeat was not kept\nwith a stack\n  of many lines")
    [line] = written.lines
    assert line.startswith("the heartbeat was not kept (")


@pytest.mark.parametrize(
    "make", [lambda: ValueError("a fault"), psycopg.errors.QueryCanceled, ZeroDivisionError]
)
def test_a_fault_keeps_its_traceback(written: Written, make: Callable[[], Exception]) -> None:
    try:
        raise make()
    except Exception:
        written.log.exception("it failed")
    assert "Traceback" in written.stream.getvalue()


def test_a_refused_statement_is_no_outage(written: Written) -> None:
    error = OperationalError("canceling statement due to statement timeout")
    error.__cause__ = psycopg.errors.QueryCanceled("canceling statement due to statement timeout")
    written.log.error("it failed", exc_info=error)
    assert "Traceback" in written.stream.getvalue() or "OperationalError" in written.stream.getvalue()
