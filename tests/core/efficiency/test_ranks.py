"""Where the time goes, and which ranks hold up the others."""

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.efficiency.ranks import Rank, breakdown, ranks_of, slow_nodes, stragglers

SHARES = st.floats(0, 1)


def test_ranks_are_read_from_the_names_of_their_series() -> None:
    means = {
        "ranks/1/step_seconds": 0.5, "ranks/1/data_share": 0.2, "ranks/0/step_seconds": 0.4, "ranks/0/mfu": 0.3,
        "ranks/2/data_share": 1.0, "ranks/0/unknown": 1.0, "system/gpu0/utilisation": 0.9, "loss": 1.0,
    }  # fmt: skip
    assert ranks_of(means) == (Rank(0, 0.4, mfu=0.3), Rank(1, 0.5, data=0.2))


@given(
    st.lists(
        st.builds(Rank, st.integers(0, 9), st.floats(0.01, 9), SHARES, SHARES, SHARES, st.none() | SHARES),
        min_size=1,
    )
)
def test_the_parts_add_up_to_the_whole(ranks: list[Rank]) -> None:
    parts = breakdown(ranks)
    assert parts is not None
    shares = [share for share in asdict(parts).values() if share is not None]
    assert sum(shares) == pytest.approx(1)
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares)


def test_communication_that_was_not_measured_is_part_of_the_computation() -> None:
    parts = breakdown([Rank(0, 1.0, data=0.25)])
    assert parts is not None
    assert (parts.communication, parts.compute) == (None, 0.75)
    assert breakdown([]) is None


def test_the_rank_that_waits_least_in_collectives_holds_up_the_others() -> None:
    ranks = [Rank(rank, 1.0, communication=0.3) for rank in range(3)] + [Rank(3, 1.0, communication=0.05)]
    [slow] = stragglers(ranks, {3: "n2"})
    assert (slow.rank, slow.node) == (3, "n2")
    assert slow.times == pytest.approx(0.95 / 0.7)


def test_equal_ranks_and_one_rank_have_no_straggler() -> None:
    assert stragglers([Rank(0, 1.0), Rank(1, 1.05)]) == ()
    assert stragglers([Rank(0, 1.0)]) == ()
    assert stragglers([Rank(0, 0.0), Rank(1, 0.0)]) == ()


def test_of_two_ranks_the_slower_one_is_named() -> None:
    assert [slow.rank for slow in stragglers([Rank(0, 1.0), Rank(1, 1.5)])] == [1]


def test_a_node_is_slow_when_all_of_its_ranks_are() -> None:
    ranks = [Rank(rank, 2.0 if rank in (4, 5, 6) else 1.0) for rank in range(8)]
    nodes = {rank: f"n{rank // 2}" for rank in range(8)}
    assert slow_nodes(stragglers(ranks, nodes), dict.fromkeys(nodes.values(), 2)) == ("n2",)
