"""Which requests run together, for every queue that Hypothesis thinks of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.serving.batching import BatchLimits, Waiting, form, retry_after_seconds

REQUESTS = st.lists(
    st.builds(
        Waiting,
        id=st.integers(0, 10_000),
        rows=st.integers(1, 6),
        tokens=st.integers(0, 50),
        shape=st.sampled_from(["a", "b"]),
        priority=st.integers(0, 2),
        deadline_ms=st.none() | st.integers(0, 200),
    ),
    max_size=40,
    unique_by=lambda one: one.id,
)
LIMITS = st.builds(
    BatchLimits, max_requests=st.integers(1, 16), max_tokens=st.integers(0, 300), max_waiting=st.just(256)
)


@given(REQUESTS, LIMITS)
def test_a_batch_keeps_to_its_limits_and_loses_nobody(waiting: list[Waiting], limits: BatchLimits) -> None:
    by_id = {one.id: one for one in waiting}
    batch = form(waiting, limits, now_ms=100)
    chosen = [by_id[key] for key in batch.requests]
    assert not set(batch.requests) & set(batch.expired)
    assert len(set(batch.requests)) == len(batch.requests)
    assert {one.shape for one in chosen} <= {chosen[0].shape} if chosen else True
    if len(chosen) > 1:
        rows = sum(one.rows for one in chosen)
        assert rows <= limits.max_requests
        assert not limits.max_tokens or rows * max(one.tokens for one in chosen) <= limits.max_tokens
    expired = {one.id for one in waiting if one.deadline_ms is not None and one.deadline_ms <= 100}
    assert set(batch.expired) == expired


@given(REQUESTS, LIMITS)
def test_the_most_urgent_that_waited_longest_is_always_in_it(
    waiting: list[Waiting], limits: BatchLimits
) -> None:
    live = [one for one in waiting if one.deadline_ms is None or one.deadline_ms > 100]
    batch = form(waiting, limits, now_ms=100)
    if live:
        assert batch.requests[0] == min(live, key=lambda one: (one.priority, one.id)).id
    else:
        assert batch.requests == ()


def test_a_request_that_waits_alone_runs_alone() -> None:
    assert form([Waiting(1)], BatchLimits(), 0).requests == (1,)


def test_a_long_text_does_not_make_short_ones_pay_for_its_padding() -> None:
    waiting = [Waiting(1, tokens=10), Waiting(2, tokens=500), Waiting(3, tokens=12)]
    assert form(waiting, BatchLimits(max_tokens=100), 0).requests == (1, 3)


def test_a_full_queue_says_when_to_come_back() -> None:
    limits = BatchLimits(max_requests=8, max_waiting=16)
    assert retry_after_seconds(15, limits, 4_000) is None
    assert retry_after_seconds(16, limits, 4_000) == 8
    assert retry_after_seconds(16, limits, 1) == 1


def test_limits_that_let_nothing_through_are_refused() -> None:
    with pytest.raises(ValueError, match="max_requests is 0"):
        BatchLimits(max_requests=0)
