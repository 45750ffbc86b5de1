from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.estimate import Conditions, compare
from platform_core.distribution.planners.routes import Place
from platform_core.distribution.sizes import advise
from platform_core.distribution.tiling import check_sizes

GBPS_10 = 1_250_000_000


@given(st.integers(0, 10**14), st.integers(0, 20_000), st.integers(1, 10**11))
def test_a_manifest_takes_whatever_is_advised(total: int, workers: int, rate: int) -> None:
    sizes = advise(total, workers, rate)
    check_sizes(sizes.chunk, sizes.piece)


def test_half_a_terabyte_goes_in_chunks_of_a_gigabyte_and_pieces_of_some_megabytes() -> None:
    sizes = advise(500 * 10**9, 1000, GBPS_10)
    assert sizes.piece == 32 << 20
    assert 0.9e9 < sizes.chunk < 1 << 30
    places = tuple(Place(f"n{n:04}", f"r{n // 25}") for n in range(1000))
    best = compare(places, Conditions(500 * 10**9, sizes.piece, GBPS_10, GBPS_10))[0]
    assert best.ratio < 1.005


def test_a_slow_link_gets_small_pieces_and_a_quick_one_pieces_that_last_a_moment() -> None:
    assert advise(1 << 28, 16, 12_500_000).piece == 64 << 10
    assert advise(1 << 28, 16, GBPS_10).piece * 1000 >= GBPS_10
