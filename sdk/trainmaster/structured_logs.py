"""Log lines of the platform and the agent: as text, or as one JSON object a line with the ids that it is about."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from platform_core import ids

FORMATS = ("plain", "json")
FIELDS = ("trace", "task", "job", "attempt", "node")
_NAMED = {"job": ids.JOB, "attempt": ids.ATTEMPT, "node": ids.NODE}
_IDS = {
    name: re.compile(rf"\b{prefix}-[{ids.ALPHABET}]{{{ids.LENGTH}}}\b") for name, prefix in _NAMED.items()
}
_SECRETS = (
    (re.compile(r"\b(tm[a-z]?_)[A-Za-z0-9_-]{20,}"), r"\1…"),  # tokens of people, nodes and links
    (re.compile(r"(?i)\b(bearer|basic) [A-Za-z0-9._~+/=-]{8,}"), r"\1 …"),
    (re.compile(r"(://[^/\s:@]*):[^/\s@]+@"), r"\1:…@"),  # a password in an address
)
_bound: ContextVar[Mapping[str, str]] = ContextVar("bound_log_fields", default={})  # noqa: B039  never changed
_always: dict[str, str] = {}


def always(**fields: str) -> None:
    """Binds ids to every line of this process, such as the node of an agent."""
    _always.update(fields)


@contextmanager
def bound(**fields: str) -> Iterator[None]:
    """Binds ids to every line until the end of the block, also in tasks and threads that begin in it."""
    token = _bound.set({**_bound.get(), **fields})
    try:
        yield
    finally:
        _bound.reset(token)


def bind_only(**fields: str) -> None:
    """Binds these ids and no others from here on, for a worker that does one thing after another."""
    _bound.set(fields)


def bound_fields() -> Mapping[str, str]:
    return {**_always, **_bound.get()}


def without_secrets(text: str) -> str:
    """Credentials that are recognised by their form, masked."""
    for pattern, masked in _SECRETS:
        text = pattern.sub(masked, text)
    return text


class PlainFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return without_secrets(super().format(record))


class JsonFormatter(logging.Formatter):
    """One object a line: time, level, process, logger, message, and of FIELDS what is known; `exception` if any.

    A line knows what is bound where it is written, what its call gives as `extra`, and the ids that its message names.
    """

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        message = without_secrets(record.getMessage())
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "process": self._process,
            "pid": record.process,
            "logger": record.name,
            "message": message,
            **_known(record, message),
        }
        if record.exc_info:
            entry["exception"] = without_secrets(self.formatException(record.exc_info))
        if record.stack_info:
            entry["stack"] = without_secrets(self.formatStack(record.stack_info))
        return json.dumps(entry, default=str)  # in ASCII, so that no character of a message ends the line


def _known(record: logging.LogRecord, message: str) -> dict[str, str]:
    named = {name: found[0] for name, pattern in _IDS.items() if (found := pattern.search(message))}
    given = {name: str(value) for name in FIELDS if (value := getattr(record, name, None))}
    known = {**named, **bound_fields(), **given}
    return {name: known[name] for name in FIELDS if known.get(name)}


def formatter(log_format: str, process: str, plain: str) -> logging.Formatter:
    """The formatter of a process; `plain` is its format of text."""
    return JsonFormatter(process) if log_format == "json" else PlainFormatter(plain)
