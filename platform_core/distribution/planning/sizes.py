"""Sizes of chunks and pieces: small enough to pipeline, large enough that their number costs little."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from platform_core.distribution.content.tiling import KIB, MAX_CHUNK_SIZE, MAX_PIECE_SIZE
from platform_core.distribution.planning.mesh import LANES

_SMALLEST_PIECE = 64 * KIB
_MOST_PIECES = 65_536  # a manifest of some 5 MB
_CHUNKS = 500  # what a person can follow on a page
_HOP_SHARE = 500  # all hops together may cost this part of the transfer
_LEAST_MS = 2  # on the wire, so that what is done once a piece does not show
_NEAR = 4  # times larger or smaller costs less than to send everything again


@dataclass(frozen=True, slots=True)
class Sizes:
    """`chunk` is a multiple of `piece`."""

    chunk: int
    piece: int


def advise(total_bytes: int, workers: int, rate: int) -> Sizes:
    """Sizes for so many bytes to so many workers at `rate` bytes per second.

    Each hop of the mesh delays by about LANES pieces: LANES * log2(workers) / 2 in all, twice that with two lanes. The
    result is the largest power of two that keeps the delay below 1/500, unless pieces become too many or too short for
    the link.
    """
    hops = LANES * max(1, workers.bit_length() // 2 + 1)
    wanted = total_bytes // (_HOP_SHARE * hops)
    least = max(_SMALLEST_PIECE, rate * _LEAST_MS // 1000, -(-total_bytes // _MOST_PIECES))
    piece = min(MAX_PIECE_SIZE, max(_power_of_two(wanted), _power_of_two(least - 1) * 2))
    share = max(1, total_bytes // _CHUNKS // piece)
    return Sizes(min(share * piece, MAX_CHUNK_SIZE // piece * piece), piece)


def keep(before: Sizes | None, advised: Sizes) -> Sizes:
    """The sizes of the previous version while they are near enough: only chunks cut alike are recognised and need not
    be sent again.
    """
    if before is not None and advised.piece <= before.piece * _NEAR and before.piece <= advised.piece * _NEAR:
        return before
    return advised


def sizes_of(document: Mapping[str, Any]) -> Sizes | None:
    """The sizes that a manifest uses; None if it has no bytes."""
    piece = int(document["piece_size"])
    longest = max((int(chunk["size"]) for chunk in document["chunks"]), default=0)
    return Sizes(-(-longest // piece) * piece, piece) if longest else None


def _power_of_two(size: int) -> int:
    """The largest power of two that is not larger."""
    return 1 << max(0, size.bit_length() - 1)
