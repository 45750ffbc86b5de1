"""The order that reads a few shards at a time, and which of them a node fetches next."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.loading.ahead import Ask, Disk, plan
from platform_core.loading.order import Span
from platform_core.loading.shards import ShardOrder

COUNTS = st.lists(st.integers(0, 12), min_size=1, max_size=20).filter(any)


def ordered(counts: list[int], seed: int = 1, at_once: int = 3, shuffle: bool = True) -> ShardOrder:
    return ShardOrder(sum(counts), seed, shuffle, np.cumsum(counts), at_once)


@given(COUNTS, st.integers(0, 2**32), st.integers(1, 6), st.integers(0, 5))
def test_an_epoch_has_each_sample_once_and_few_shards_at_a_time(
    counts: list[int], seed: int, at_once: int, epoch: int
) -> None:
    order = ordered(counts, seed, at_once)
    begin = epoch * order.samples

    found = order.indices(Span(begin, begin + order.samples)).tolist()

    assert sorted(found) == list(range(order.samples))
    shard_of = np.repeat(np.arange(len(counts)), counts)
    for place, sample in enumerate(found):
        assert shard_of[sample] in order.shards(*order.group(begin + place))


@given(COUNTS, st.integers(1, 9), st.integers(1, 4), st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_the_ledger_is_exact_with_any_batches_and_ranks(
    counts: list[int], at_once: int, ranks: int, batches: list[int]
) -> None:
    order, position, found = ordered(counts, 5, at_once), 0, []
    for batch in batches * order.samples:
        if position >= order.samples:
            break
        span = Span(position, min(position + batch, order.samples))
        found += order.indices(*(span.share(rank, ranks) for rank in range(ranks))).tolist()
        position = span.stop

    whole = order.indices(Span(0, order.samples)).tolist()
    assert found == whole


def test_without_shuffling_shards_come_as_they_lie() -> None:
    order = ordered([3, 0, 2], shuffle=False)

    assert order.indices(Span(0, 5)).tolist() == [0, 1, 2, 3, 4]


def test_epochs_have_other_shards_together() -> None:
    order = ordered([4] * 12)

    assert len({tuple(order.shards(epoch, 0)) for epoch in range(6)}) > 3


def test_shards_that_do_not_hold_the_samples_are_refused() -> None:
    with pytest.raises(ValueError, match="5 samples in 1 shards"):
        ShardOrder(5, 1, True, np.array([4]), 3)


SIZES = dict.fromkeys("abcdefgh", 10)


def disk(here: str = "", busy: str = "", kept: str = "", limit: int = 30) -> Disk:
    return Disk(set(here), set(busy), set(kept), 10 * len(here + busy), limit)


def test_shards_that_are_needed_now_come_first_and_in_turns_of_the_loaders() -> None:
    turn = plan(SIZES, disk(limit=60), [Ask(("c", "d"), ("a",)), Ask(("g",))], 4)

    assert turn.fetch == ("c", "g", "d", "a")


def test_shards_that_nobody_asks_for_make_room() -> None:
    turn = plan(SIZES, disk(here="abc", kept="a"), [Ask(("c", "d"))], 4)

    assert (turn.fetch, turn.delete) == (("d",), ("b",))


def test_a_shard_that_is_needed_now_takes_the_place_of_the_one_furthest_ahead() -> None:
    turn = plan(SIZES, disk(here="abc"), [Ask(("a", "d"), ("b", "c"))], 4)

    assert (turn.fetch, turn.delete) == (("d",), ("c",))


def test_shards_ahead_wait_for_room_and_those_needed_now_do_not() -> None:
    assert plan(SIZES, disk(here="abc"), [Ask(("a", "b", "c"), ("d",))], 4).fetch == ()
    assert plan(SIZES, disk(here="abc"), [Ask(("a", "b", "c", "d"))], 4).fetch == ("d",)


def test_without_a_loader_the_dataset_comes_in_its_order_until_the_disk_is_full() -> None:
    assert plan(SIZES, disk(here="a"), [], 4).fetch == ("b", "c")
    assert plan(SIZES, disk(here="a", limit=80), [Ask(("e",))], 4).fetch == ("e", "b", "c", "d")


@given(
    st.sets(st.sampled_from("abcdefgh")),
    st.sets(st.sampled_from("abcdefgh")),
    st.lists(st.tuples(*[st.text("abcdefghx", max_size=4)] * 2), max_size=3),
    st.integers(0, 90),
)
def test_nothing_that_is_needed_now_is_deleted_and_the_limit_holds_for_what_is_ahead(
    here: set[str], busy: set[str], lists: list[tuple[str, str]], limit: int
) -> None:
    busy -= here
    asks = [Ask(tuple(now), tuple(ahead)) for now, ahead in lists]
    state = disk("".join(here), "".join(busy), limit=limit)

    turn = plan(SIZES, state, asks, 3)

    now = {path for now, _ in lists for path in now}
    assert not set(turn.delete) & now
    assert not set(turn.fetch) & (here | busy)
    if set(turn.fetch) - now:
        assert state.used + 10 * (len(turn.fetch) - len(turn.delete)) <= limit
