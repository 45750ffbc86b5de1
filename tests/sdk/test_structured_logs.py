"""Log lines as JSON: one object a line, with ids, without secrets."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmaster import structured_logs
from trainmaster.structured_logs import JsonFormatter, PlainFormatter, bound, formatter, without_secrets

JOB, ATTEMPT, NODE = "job-0123456789abcdef", "att-0123456789abcdef", "node-0123456789abcdef"


def line(message: str, *arguments: Any, **more: Any) -> dict[str, Any]:
    record = logging.LogRecord("webapp.jobs", logging.INFO, "file.py", 1, message, arguments, None)
    record.__dict__.update(more)
    found = json.loads(JsonFormatter("web").format(record))
    assert isinstance(found, dict)
    return found


def test_a_line_says_when_what_and_which_process() -> None:
    found = line("%s of %s", "three", "four")
    assert (found["process"], found["level"], found["logger"]) == ("web", "INFO", "webapp.jobs")
    assert found["message"] == "three of four"
    assert found["time"].endswith("+00:00")
    assert found["pid"]
    assert not found.keys() & set(structured_logs.FIELDS)


def test_a_line_knows_the_ids_that_it_names() -> None:
    found = line("%s of %s is on %s", ATTEMPT, JOB, NODE)
    assert (found["job"], found["attempt"], found["node"]) == (JOB, ATTEMPT, NODE)


def test_what_is_bound_and_what_is_given_go_before_what_is_named() -> None:
    with bound(trace="abc", job="job-bound"):
        assert line(JOB)["job"] == "job-bound"
        assert line(JOB, job="job-given")["job"] == "job-given"
        with bound(attempt=ATTEMPT):
            assert line("x")["trace"] == "abc"
        assert "attempt" not in line("x")
    assert "trace" not in line("x")


def test_a_task_that_begins_in_a_block_keeps_what_was_bound() -> None:
    async def main() -> dict[str, Any]:
        async def work() -> dict[str, Any]:
            await asyncio.sleep(0)
            return line("x")

        with bound(attempt=ATTEMPT):
            task = asyncio.create_task(work())
        return await task

    assert asyncio.run(main())["attempt"] == ATTEMPT


def test_an_exception_stays_in_its_line() -> None:
    try:
        raise ValueError("the password in redis://:hunter2@cache:6379/0 is wrong")
    except ValueError:
        found = line("failed", exc_info=sys.exc_info())
    assert "ValueError" in found["exception"]
    assert "hunter2" not in found["exception"]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("token tm_0123456789abcdefghij0123 is old", "token tm_… is old"),
        ("tmn_0123456789abcdefghij-0123", "tmn_…"),
        ("Authorization: Bearer abc.def-ghi.jkl", "Authorization: Bearer …"),
        ("postgresql://trainmaster:p4ss@db:5432/x", "postgresql://trainmaster:…@db:5432/x"),
        ("redis://:p4ss@cache:6379/0", "redis://:…@cache:6379/0"),
        ("http://127.0.0.1:8000/healthz and a@b", "http://127.0.0.1:8000/healthz and a@b"),
        ("the bearer of news", "the bearer of news"),
    ],
)
def test_credentials_are_masked_in_both_forms(text: str, masked: str) -> None:
    assert without_secrets(text) == masked
    assert line(text)["message"] == masked
    record = logging.LogRecord("x", logging.INFO, "file.py", 1, text, (), None)
    assert PlainFormatter("%(message)s").format(record) == masked


@given(st.text(alphabet=st.characters(codec=None)))
def test_any_message_is_one_line_of_ascii(message: str) -> None:
    record = logging.LogRecord("x", logging.INFO, "file.py", 1, "%s", (message,), None)
    text = JsonFormatter("web").format(record)
    assert text.isascii()
    assert len(text.splitlines()) == 1
    assert json.loads(text)["logger"] == "x"


def test_the_form_is_chosen() -> None:
    assert isinstance(formatter("json", "web", ""), JsonFormatter)
    assert isinstance(formatter("plain", "web", "%(message)s"), PlainFormatter)
