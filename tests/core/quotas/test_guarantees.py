"""Guarantees against the slots there are."""

import pytest

from platform_core.errors import TrainmasterError
from platform_core.quotas.admission import Refused
from platform_core.quotas.guarantees import Raise, admit, overcommitted


@pytest.mark.parametrize(
    ("before", "wanted", "others", "slots", "why"),
    [
        (0, 6, 2, 8, "all of the cluster is guaranteed, and no more"),
        (20, 12, 0, 8, "lowering goes in the right direction"),
        (20, 20, 4, 8, "unchanged, while the maximum is edited"),
        (0, 100, 100, 0, "teams are made before the first node joins"),
    ],
)
def test_what_the_cluster_can_keep_or_what_is_not_raised_passes(
    before: int, wanted: int, others: int, slots: int, why: str
) -> None:
    assert admit(Raise("vision", "cpu", before, wanted), others, slots) is None, why


@pytest.mark.parametrize(
    ("before", "wanted", "others", "slots", "sentence"),
    [
        (4, 9, 0, 8, "vision cannot be guaranteed 9 cpu slots: the cluster has 8, 0 of them guaranteed to other teams; "
         "at most 8"),
        (2, 4, 6, 8, "vision cannot be guaranteed 4 cpu slots: the cluster has 8, 6 of them guaranteed to other teams; "
         "at most 2"),
        (0, 1, 12, 8, "vision cannot be guaranteed 1 cpu slots: the cluster has 8, 12 of them guaranteed to other "
         "teams; at most 0"),
    ],
)  # fmt: skip
def test_more_than_the_cluster_has_beside_the_others_is_refused_with_the_numbers(
    before: int, wanted: int, others: int, slots: int, sentence: str
) -> None:
    refused = admit(Raise("vision", "cpu", before, wanted), others, slots)
    assert isinstance(refused, Refused)
    assert TrainmasterError(refused.code, **dict(refused.numbers)).sentence == sentence


def test_guarantees_beyond_the_cluster_are_pointed_out() -> None:
    assert overcommitted("cpu", 8, 8) == ""
    assert overcommitted("cpu", 12, 8) == (
        "All teams together are guaranteed 12 cpu slots, but the cluster has 8."
    )
    assert overcommitted("h100", 1, 0) == (
        "All teams together are guaranteed 1 h100 slot, but no node with h100 has joined yet."
    )
