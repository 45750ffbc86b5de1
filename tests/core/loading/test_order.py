"""The order of samples: each one exactly once an epoch, whatever becomes of the ranks and the batch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.loading.order import LastBatch, Order, Span
from platform_core.loading.permutation import permute

SIZES = st.integers(1, 400)


def whole(samples: int, seed: int, epoch: int) -> list[int]:
    return [int(index) for index in permute(np.arange(samples), samples, seed, epoch)]


@given(st.integers(1, 600), st.integers(-(2**63), 2**64), st.integers(0, 2**40))
def test_an_epoch_has_each_sample_once(samples: int, seed: int, epoch: int) -> None:
    assert sorted(whole(samples, seed, epoch)) == list(range(samples))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    orders = [whole(1_000, seed, epoch) for seed in range(3) for epoch in range(3)]

    assert len({tuple(order) for order in orders}) == 9


def test_a_sample_is_as_likely_at_each_place() -> None:
    """Chi-squared over 10 places and 2,000 epochs: 27.9 is exceeded once in a thousand times by chance."""
    places = np.zeros(10)
    for epoch in range(2_000):
        places[permute(np.array([3]), 10, 7, epoch)[0]] += 1

    assert float(((places - 200) ** 2 / 200).sum()) < 27.9


def test_neighbours_are_torn_apart() -> None:
    order = np.array(whole(100_000, 1, 0))

    assert abs(float(np.corrcoef(order[:-1], order[1:])[0, 1])) < 0.02
    assert np.count_nonzero(np.diff(order) == 1) < 20


def test_a_place_among_very_many_is_found_without_the_others() -> None:
    samples = 10**15
    places = np.array([0, 1, 10**14, samples - 1])

    found = permute(places, samples, 1, 2)

    assert len(set(found.tolist())) == 4
    assert all(0 <= index < samples for index in found)


@given(SIZES, st.integers(0, 2**32), st.lists(st.tuples(st.integers(1, 50), st.integers(1, 8)), min_size=1))
def test_the_ledger_is_exact_through_kills_and_resizes(
    samples: int, seed: int, attempts: list[tuple[int, int]]
) -> None:
    """Each attempt has a global batch and a number of ranks of its own, and goes on from the last position."""
    order, position, ledger = Order(samples, seed), 0, []
    while position < 2 * samples:
        for size, ranks in attempts:
            span = order.batch(position, size, LastBatch.FILL)
            for rank in range(ranks):
                ledger += order.indices(span.share(rank, ranks)).tolist()
            position = span.stop

    for epoch in range(position // samples):
        assert sorted(ledger[epoch * samples : (epoch + 1) * samples]) == list(range(samples))


@given(SIZES, st.integers(1, 64), st.integers(1, 9), st.sampled_from(LastBatch))
def test_the_batches_of_an_epoch_are_counted(samples: int, size: int, ranks: int, last: LastBatch) -> None:
    order, position, batches = Order(samples, 0), 0, 0
    expected = order.batches_left(0, size)
    while order.epoch(position) == 0:
        span = order.batch(position, size, last)
        shares = [span.share(rank, ranks) for rank in range(ranks)]
        assert shares[0].start == span.start
        assert shares[-1].stop == span.stop
        position, batches = span.stop, batches + 1

    assert batches == expected
    assert (position == samples) if last is LastBatch.KEEP else (samples <= position < samples + size)


def test_the_global_batch_is_the_same_on_any_number_of_ranks() -> None:
    order = Order(1_000, 5)
    span = order.batch(960, 64, LastBatch.FILL)

    alone = order.indices(span).tolist()

    for ranks in (2, 4, 3):
        assert [i for rank in range(ranks) for i in order.indices(span.share(rank, ranks))] == alone


def test_without_shuffle_the_samples_come_as_they_lie() -> None:
    assert Order(4, 0, shuffle=False).indices(Span(2, 7)).tolist() == [2, 3, 0, 1, 2]


def test_no_samples_have_no_order() -> None:
    with pytest.raises(ValueError, match="not of 0"):
        Order(0, 0)
