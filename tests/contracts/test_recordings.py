"""What the table below a recording sums up, read in a real browser."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page

from tests.contracts.test_chart_data import importing


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with importing("recording-read.js", "read") as page:
        yield page


def bar(name: str, start: int, end: int, thread: int = 1) -> dict[str, Any]:
    return {"ph": "X", "name": name, "pid": 1, "tid": thread, "ts": start, "dur": end - start}


def memory(at: int, size: int, thread: int = 1) -> dict[str, Any]:
    return {
        "ph": "i",
        "name": "[memory]",
        "pid": 1,
        "tid": thread,
        "ts": at,
        "args": {"Bytes": size, "Total Allocated": 1},
    }


def table(page: Page, *events: dict[str, Any]) -> tuple[dict[str, list[int]], int, str]:
    found = page.evaluate(
        """(traceEvents) => {
          const { sums, whole, unit } = read.traceOf({ traceEvents }).table;
          return [Object.fromEntries([...sums].map(([name, { own, calls }]) => [name, [own, calls]])), whole, unit];
        }""",
        list(events),
    )
    return found[0], found[1], found[2]


def test_a_profile_has_the_own_time_of_each_name(page: Page) -> None:
    found = table(page, bar("step", 0, 100), bar("mm", 10, 40), bar("mm", 50, 60), bar("copy", 0, 30, 2))
    assert found == ({"step": [60, 1], "mm": [40, 2], "copy": [30, 1]}, 100, "Own ms")


def test_a_memory_snapshot_has_what_each_name_allocated_itself(page: Page) -> None:
    """What is freed counts for nothing; what no operator encloses is named as that."""
    bars = (bar("step", 0, 100), bar("mm", 10, 40), bar("mm", 50, 60))
    events = (memory(20, 8), memory(55, 4), memory(45, 2), memory(70, -8), memory(200, 1))
    assert table(page, *bars, *events) == (
        {"mm": [12, 2], "step": [2, 1], "outside operators": [1, 1]}, 15, "Allocated MiB",
    )  # fmt: skip
