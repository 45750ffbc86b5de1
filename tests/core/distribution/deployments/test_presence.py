from __future__ import annotations

import pytest

from platform_core.distribution.deployments.presence import began_anew, silent


@pytest.mark.parametrize(
    ("workers", "quiet", "believed"), [(4, 1, 1), (4, 2, 0), (8, 2, 2), (8, 3, 0), (1000, 250, 250)]
)
def test_a_few_that_are_silent_have_left_and_many_mean_that_we_do_not_hear(
    workers: int, quiet: int, believed: int
) -> None:
    heard = {f"n{number}": 0 if number < quiet else 9_000 for number in range(workers)}
    assert len(silent(heard, 10_000, 5_000)) == believed


def test_nobody_is_gone_before_patience_ends() -> None:
    assert silent({"a": 5_000, "b": 10_000}, 10_000, 5_000) == frozenset()
    assert silent({}, 10_000, 5_000) == frozenset()


@pytest.mark.parametrize(
    ("before", "now", "anew"),
    [
        ((8, 8), (0, 0), True),
        ((8, 8), (1, 2), True),
        ((8, 8), (7, 8), False),  # what a killed agent had not yet noted
        ((8, 8), (), False),  # it has yet to look
        ((0, 0), (0, 0), False),
        ((), (4, 4), False),
    ],
)
def test_who_has_lost_most_of_what_it_held_begins_anew(
    before: tuple[int, ...], now: tuple[int, ...], anew: bool
) -> None:
    assert began_anew(before, now) is anew
