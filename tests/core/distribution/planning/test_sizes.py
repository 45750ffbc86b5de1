from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.content.manifest import ManifestBuilder, as_document
from platform_core.distribution.content.tiling import check_sizes
from platform_core.distribution.planning.estimate import Conditions, compare
from platform_core.distribution.planning.routes import Place
from platform_core.distribution.planning.sizes import Sizes, advise, keep, sizes_of

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


def test_the_next_version_is_cut_as_the_one_before_unless_that_would_not_do() -> None:
    before = Sizes(64 << 20, 4 << 20)
    assert keep(before, Sizes(48 << 20, 16 << 20)) == before, "equal chunks are known again"
    assert keep(before, Sizes(1 << 30, 32 << 20)) == Sizes(1 << 30, 32 << 20)
    assert keep(None, before) == before


@given(st.integers(1, 5_000), st.integers(1, 40), st.integers(1, 5))
def test_how_a_manifest_was_cut_can_be_read_from_it(total: int, pieces: int, piece: int) -> None:
    builder = ManifestBuilder("model", chunk_size=pieces * piece, piece_size=piece)
    builder.feed("weights.bin", bytes(total))
    found = sizes_of(as_document(builder.finish()))
    assert found is not None
    check_sizes(found.chunk, found.piece)
    assert found.piece == piece
    assert found.chunk == pieces * piece or total <= found.chunk
