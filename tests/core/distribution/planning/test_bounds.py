from __future__ import annotations

from functools import cache
from itertools import product
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.distribution.planning import bounds as b

GBPS_10 = 1_250_000_000
FILE = 500 * 10**9


@given(st.integers(1, 10_000), st.integers(1, 100_000))
def test_rounds_are_the_formula_of_the_papers(pieces: int, workers: int) -> None:
    assert b.rounds(pieces, workers) == pieces - 1 + ceil(log2(workers + 1))


@pytest.mark.parametrize(
    ("pieces", "workers"), [(1, 1), (1, 3), (1, 4), (2, 1), (2, 2), (2, 3), (3, 2), (3, 1)]
)
def test_no_schedule_at_all_is_quicker_and_one_is_as_quick(pieces: int, workers: int) -> None:
    """Breadth-first over every possible round; node 0 is the source."""
    full = (1 << pieces) - 1
    states = {(0,) * workers}
    taken = 0
    while not any(all(held == full for held in state) for state in states):
        states = {after for state in states for after in all_rounds((full, *state))}
        taken += 1
    assert taken == b.rounds(pieces, workers)


@cache
def all_rounds(held: tuple[int, ...]) -> frozenset[tuple[int, ...]]:
    """What the workers may hold after one round in which each sends and receives at most one piece."""
    pieces = max(held).bit_length()
    offers = [
        [None]
        + [(sender, piece) for sender in range(len(held)) if sender != to for piece in range(pieces)
           if held[sender] >> piece & 1 and not held[to] >> piece & 1]
        for to in range(1, len(held))
    ]  # fmt: skip
    found = set()
    for choice in product(*offers):
        senders = [offer[0] for offer in choice if offer]
        if len(senders) == len(set(senders)):
            found.add(tuple(h | 1 << o[1] if o else h for h, o in zip(held[1:], choice, strict=True)))
    # More pieces are never worse, so only the states that are not part of another one matter; workers are alike.
    ordered = {tuple(sorted(state)) for state in found}
    return frozenset(
        state
        for state in ordered
        if not any(
            other != state and all(x & y == x for x, y in zip(state, other, strict=True)) for other in ordered
        )
    )


def test_one_copy_over_the_external_link_is_the_floor_for_any_number() -> None:
    port = b.Rates(GBPS_10, GBPS_10)
    for workers in (1, 100, 10_000):
        assert b.fluid_ms(FILE, GBPS_10, [port] * workers) == 400_000
    assert 400_000 < b.rounds_ms(FILE, 16 << 20, 1000, GBPS_10) < 400_200


def test_slow_receivers_and_little_upload_bound_it_too() -> None:
    assert b.fluid_ms(1000, 1000, [b.Rates(1000, 100), b.Rates(1000, 1000)]) == 10_000
    assert b.fluid_ms(1000, 1000, [b.Rates(0, 1000)] * 3) == 3000


def test_a_thin_uplink_bounds_its_rack() -> None:
    port = b.Rates(1000, 1000)
    thin = b.Rack((port,) * 4, b.Rates(100, 100))
    assert b.rack_ms(1000, 1000, [b.Rack((port,) * 4, port), thin]) == 10_000
    assert b.rack_ms(1000, 1000, [b.Rack((port,) * 4)]) == 1000
    assert b.rack_ms(1000, 1000, []) == 0


def test_a_link_without_a_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="0 bytes per second"):
        b.fluid_ms(1000, 1000, [b.Rates(1, 0)])
