"""Log lines of every process that runs for long: a warning that repeats is counted, and an outage is one sentence."""

from __future__ import annotations

import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

AT_FIRST = 3  # of the same line in a period
PERIOD_S = 60.0
MOST_LINES = 500  # that are told apart; the oldest are forgotten
LONGEST_KEY = 200  # characters
_CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|0x[0-9a-fA-F]+|\d+")
# Packages whose errors say that a server is away, and what these errors are called there.
_AWAY = {
    "django": {"OperationalError", "InterfaceError"},
    "psycopg": {
        "OperationalError",
        "InterfaceError",
        "ConnectionTimeout",
        "AdminShutdown",
        "CannotConnectNow",
    },
    "psycopg_pool": {"PoolTimeout"},
    "redis": {"ConnectionError", "TimeoutError", "BusyLoadingError"},
    "kombu": {"OperationalError"},
}


@dataclass(slots=True)
class _Line:
    began: float
    first: logging.LogRecord
    shown: int = 0
    more: int = 0


class CountingHandler(logging.StreamHandler[Any]):
    """Writes a warning or an error a few times in a minute, then only how often it came again.

    Lines are the same where they differ in numbers alone. Its memory is bounded, whatever is logged.
    """

    def __init__(self, stream: Any = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._lines: OrderedDict[tuple[str, int, str], _Line] = OrderedDict()

    def emit(self, record: logging.LogRecord) -> None:
        for line in self._over(self._clock()):
            super().emit(line)
        shortened = without_outage(record)
        if record.levelno < logging.WARNING or self._shows(shortened):
            super().emit(shortened)

    def close(self) -> None:
        for line in self._over(float("inf")):
            super().emit(line)
        super().close()

    def _shows(self, record: logging.LogRecord) -> bool:
        text = _CHANGING.sub("0", record.getMessage()[:LONGEST_KEY])
        line = self._lines.setdefault((record.name, record.levelno, text), _Line(self._clock(), record))
        if line.shown < AT_FIRST:
            line.shown += 1
            return True
        line.more += 1
        return False

    def _over(self, now: float) -> list[logging.LogRecord]:
        """What came again in periods that have ended."""
        ended = []
        while self._lines:
            key, line = next(iter(self._lines.items()))
            if now - line.began < PERIOD_S and len(self._lines) <= MOST_LINES:
                break
            del self._lines[key]
            if line.more:
                ended.append(_again(line))
        return ended


def _again(line: _Line) -> logging.LogRecord:
    first = line.first
    text = f"{first.getMessage().splitlines()[0]} … {line.more:,} times more in the last minute"
    return logging.LogRecord(first.name, first.levelno, first.pathname, first.lineno, text, None, None)


def without_outage(record: logging.LogRecord) -> logging.LogRecord:
    """The record, with a sentence in place of the traceback where a server is away: there is nothing else to read."""
    error = record.exc_info[1] if record.exc_info else None
    if error is None or not is_away(error):
        return record
    shortened = logging.makeLogRecord(record.__dict__)
    first, reason = record.getMessage().splitlines()[0], (str(error).splitlines() or [""])[0]
    told = "" if reason and reason in first else f" ({type(error).__name__}: {reason})"
    shortened.msg, shortened.args = f"{first}{told}", None
    shortened.exc_info = shortened.exc_text = shortened.stack_info = None
    return shortened


def is_away(error: BaseException) -> bool:
    """Whether it says that the database or Valkey cannot be reached, rather than that they refuse what was asked."""
    state = getattr(error, "sqlstate", None) or getattr(error.__cause__, "sqlstate", None)
    if state is not None and not state.startswith(("08", "57P")):
        return False
    return any(
        kind.__name__ in _AWAY.get(kind.__module__.partition(".")[0], ()) for kind in type(error).__mro__
    )
