"""Where the time goes, and which ranks hold up the others."""

from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.efficiency.mfu import why_missing
from platform_core.efficiency.ranks import (
    Rank,
    breakdown,
    ranks_of,
    slow_nodes,
    stragglers,
    what_is_not_measured,
)

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
    shares = [share for name, share in asdict(parts).items() if share is not None and name != "differing"]
    assert sum(shares) == pytest.approx(1)
    assert all(-1e-9 <= share <= 1 + 1e-9 for share in shares)


def test_communication_that_was_not_measured_is_part_of_the_computation() -> None:
    parts = breakdown([Rank(0, 1.0, data=0.25)])
    assert parts is not None
    assert (parts.communication, parts.compute) == (None, 0.75)
    assert breakdown([]) is None


def profiled(shares: list[float | None], order: float = 1.0) -> list[Rank]:
    return [
        Rank(rank, 1.0, communication=share, profile=None if share is None else order)
        for rank, share in enumerate(shares)
    ]


def test_the_rank_that_waits_least_in_collectives_holds_up_the_others() -> None:
    [slow] = stragglers(profiled([0.3, 0.3, 0.3, 0.05]), {3: "n2"})
    assert (slow.rank, slow.node) == (3, "n2")
    assert slow.times == pytest.approx(0.95 / 0.7)


@pytest.mark.parametrize(
    "shares", [[0.3, None], [0.3, None, None, None], [0.3, 0.3, None, None], [0.0, None]]
)
def test_no_rank_is_held_against_one_that_was_not_profiled(shares: list[float | None]) -> None:
    ranks = profiled(shares)
    assert stragglers(ranks) == ()
    assert "profile all ranks" in what_is_not_measured(ranks)


def test_ranks_of_two_profiles_are_not_compared() -> None:
    ranks = [*profiled([0.5, 0.5], 1.0), Rank(2, 1.0, communication=0.1, profile=2.0)]
    assert stragglers(ranks) == ()
    assert "1 of 3 ranks" in what_is_not_measured(ranks)
    assert what_is_not_measured(profiled([0.5, 0.5])) == ""
    assert "Communication was not measured" in what_is_not_measured(profiled([None, None]))


def test_two_small_remainders_make_no_great_ratio() -> None:
    [slow] = stragglers(profiled([0.991, 0.01]))
    assert slow.times <= 10
    assert stragglers(profiled([0.999, 0.93])) == ()


def test_a_mean_of_unlike_ranks_says_so() -> None:
    mixed, alike = breakdown(profiled([0.9, 0.1])), breakdown(profiled([0.5, 0.45]))
    assert mixed is not None
    assert mixed.is_mixed
    assert alike is not None
    assert not alike.is_mixed


@pytest.mark.parametrize("share", [1.01, 3.2, float("inf"), -0.1])
def test_more_than_the_hardware_can_do_is_no_mfu(share: float) -> None:
    means = {"ranks/0/step_seconds": 0.4, "ranks/0/mfu": share, "ranks/0/flops_per_second": 1e15}
    [rank] = ranks_of(means)
    assert (rank.mfu, rank.flops_per_second) == (None, None)
    assert (
        why_missing([rank.flops_missing], "h100", has_peak=True)
        == "not measured: the count exceeds the hardware"
    )


def test_a_missing_mfu_has_a_reason() -> None:
    assert "torch.compile hides" in why_missing([None, 1.0], "h100", has_peak=True)
    assert why_missing([None], "gaudi3", has_peak=False) == "not measured: no peak is known for gaudi3"
    assert why_missing([], "h100", has_peak=True) == "not measured"


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
