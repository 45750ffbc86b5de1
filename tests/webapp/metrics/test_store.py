"""One suite for every metric store: see webapp/metrics/services.py for the promises."""

import math
from collections.abc import Iterator
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.webapp.metrics.memory import MemoryStore
from webapp.metrics import queries, segments, services
from webapp.metrics.models import Segment
from webapp.metrics.values import Points

Store = Any
RUN = "run-of-the-tests"
POSTGRES = SimpleNamespace(
    append=services.append, compact=services.compact, delete=services.delete, delete_keys=services.delete_keys,
    keys=queries.keys, summaries=queries.summaries, history=queries.history,
)  # fmt: skip


@pytest.fixture(params=["memory", "postgres"])
def store(request: pytest.FixtureRequest) -> Store:
    if request.param == "postgres":
        request.getfixturevalue("db")
        return POSTGRES
    return MemoryStore()


def points(*rows: tuple[int, float, int], key: str = "loss") -> Points:
    return Points(key, [row[0] for row in rows], [row[1] for row in rows], [row[2] for row in rows])


def history(store: Store, key: str = "loss", limit: int = 10_000) -> list[tuple[int, float, int]]:
    rows: list[tuple[int, float, int]] = []
    page, cursor = store.history(RUN, key, limit=limit)
    rows += zip(page.steps, page.values, page.times_ms, strict=True)
    while cursor:
        page, cursor = store.history(RUN, key, after=cursor, limit=limit)
        rows += zip(page.steps, page.values, page.times_ms, strict=True)
    return rows


def test_points_come_back_in_the_order_of_their_steps(store: Store) -> None:
    store.append(RUN, [points((2, 0.5, 20), (1, 0.75, 10)), points((1, 3.0, 10), key="acc")])
    store.append(RUN, [points((0, 9.0, 5))])
    assert history(store) == [(0, 9.0, 5), (1, 0.75, 10), (2, 0.5, 20)]
    assert history(store, "acc") == [(1, 3.0, 10)]
    assert store.keys([RUN, "unknown"]) == ["acc", "loss"]
    assert history(store, "unknown") == []


def test_a_batch_that_arrives_twice_counts_once(store: Store) -> None:
    assert store.append(RUN, [points((1, 1.0, 1))], source="node-x", sequence=7)
    assert not store.append(RUN, [points((1, 2.0, 1))], source="node-x", sequence=7)
    assert not store.append(RUN, [points((2, 2.0, 1))], source="node-x", sequence=6)
    assert store.append(RUN, [points((3, 3.0, 1))], source="node-y", sequence=1)
    assert store.append(RUN, [points((4, 4.0, 1))], source="node-x", sequence=9)
    assert [step for step, _, _ in history(store)] == [1, 3, 4]


def test_a_later_attempt_replaces_the_steps_that_it_repeats(store: Store) -> None:
    store.append(RUN, [points(*((step, 1.0, step) for step in range(1, 6)))], attempt=1)
    store.append(RUN, [points((3, 2.0, 10), (4, 2.0, 11))], attempt=2)
    store.append(RUN, [points((4, 9.0, 12), (6, 9.0, 13))], attempt=1)
    expected = [(1, 1.0), (2, 1.0), (3, 2.0), (4, 2.0), (5, 1.0), (6, 9.0)]
    assert [(step, value) for step, value, _ in history(store)] == expected


def test_points_of_one_step_stand_beside_each_other_and_equal_ones_count_once(store: Store) -> None:
    store.append(RUN, [points((0, 1.0, 1), (0, 2.0, 2))])
    store.append(RUN, [points((0, 1.0, 1), (0, 3.0, 2), (0, 0.5, 9))])
    assert history(store, limit=1) == [(0, 1.0, 1), (0, 2.0, 2), (0, 3.0, 2), (0, 0.5, 9)]


def test_values_that_are_not_finite_are_kept_and_counted(store: Store) -> None:
    store.append(RUN, [points((1, math.inf, 1), (2, 2.0, 2), (3, -math.inf, 3), (4, math.nan, 4))])
    values = [value for _, value, _ in history(store)]
    assert values[:3] == [math.inf, 2.0, -math.inf]
    assert math.isnan(values[3])
    summary = store.summaries([RUN])[RUN]["loss"]
    assert (summary.count, summary.non_finite, summary.min, summary.max, summary.min_step) == (
        4,
        3,
        2.0,
        2.0,
        2,
    )
    store.append(RUN, [points((1, math.nan, 1), key="nan")])
    assert store.summaries([RUN], ["nan"])[RUN]["nan"].min is None


def test_what_was_deleted_can_be_reported_anew(store: Store) -> None:
    store.append(RUN, [points((1, 1.0, 1)), points((1, 2.0, 1), key="acc")], source="a", sequence=1)
    store.delete_keys(RUN, ["acc", "unknown"])
    assert store.keys([RUN]) == ["loss"]
    store.delete([RUN, "unknown"])
    assert store.summaries([RUN]) == {RUN: {}}
    assert store.append(RUN, [points((1, 5.0, 1))], source="a", sequence=1)
    assert history(store) == [(1, 5.0, 1)]


VALUES = st.sampled_from([0.0, -0.0, 1.0, 2.0, -3.5, math.nan, math.inf, -math.inf, 1e308]) | st.floats()
WHOLE = st.integers(0, 12) | st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.tuples(WHOLE, VALUES, WHOLE), min_size=1, max_size=30)
BATCHES = st.lists(
    st.tuples(st.integers(0, 3), st.sampled_from(["loss", "acc"]), ROWS, st.booleans()),
    min_size=1,
    max_size=12,
)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Segments so small that a few points fill several."""
    monkeypatch.setattr(segments, "SEGMENT_POINTS", 8)
    monkeypatch.setattr(services, "SEGMENT_POINTS", 8)
    monkeypatch.setattr(segments, "BLOCK_POINTS", 4)
    monkeypatch.setattr(segments, "RAW_POINTS", 3)
    return


@pytest.mark.django_db
@pytest.mark.usefixtures("small_segments")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(BATCHES, st.integers(1, 40))
def test_any_order_of_batches_attempts_and_compactions_gives_what_the_rules_say(
    batches: list[tuple[int, str, list[tuple[int, float, int]], bool]], limit: int
) -> None:
    POSTGRES.delete([RUN])
    plain = MemoryStore()
    for attempt, key, rows, compacted in batches:
        for store in (plain, POSTGRES):
            store.append(RUN, [points(*rows, key=key)], attempt=attempt)
        if compacted:
            POSTGRES.compact(RUN)
    for key in plain.keys([RUN]):
        assert repr(history(POSTGRES, key, limit)) == repr(history(plain, key))
    zero = "0.0"  # of either sign
    assert repr(POSTGRES.summaries([RUN])).replace("-0.0", zero) == repr(plain.summaries([RUN])).replace(
        "-0.0", zero
    )
    in_order = Segment.objects.order_by("series", "first_step", "first_ms", "last_step", "last_ms")
    ends = list(in_order.values_list("series", "first_step", "first_ms", "last_step", "last_ms"))
    assert all(
        (one[0], one[3], one[4]) <= (following[0], following[1], following[2])
        for one, following in pairwise(ends)
    )
