"""Which groups of a layout lie on which node."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from platform_core.jobs.parallel import Parallel
from platform_core.jobs.rank_groups import node_groups, ranges


def test_each_node_has_the_groups_of_its_ranks() -> None:
    first, second = node_groups(Parallel(fsdp=2, tp=2, pp=2), [4, 4])
    assert first.columns == ("0-3", "0", "0-1", "0-1")
    assert second.by_dimension == {"pp": (1,), "fsdp": (0, 1), "tp": (0, 1)}


def test_copies_follow_from_the_slots_that_there_are() -> None:
    assert [each.by_dimension for each in node_groups(Parallel(tp=2), [2, 2])] == [
        {"dp": (0,), "tp": (0, 1)},
        {"dp": (1,), "tp": (0, 1)},
    ]
    assert node_groups(Parallel(tp=2), []) == ()


def test_numbers_that_follow_each_other_are_one_range() -> None:
    assert ranges([0, 1, 2, 5, 7, 8]) == "0-2, 5, 7-8"
    assert ranges([]) == ""


LAYOUTS = st.builds(
    Parallel, dp=st.integers(1, 3), fsdp=st.integers(1, 3), tp=st.integers(1, 4), cp=st.integers(1, 2),
    pp=st.integers(1, 3),
)  # fmt: skip


@given(LAYOUTS, st.integers(1, 4))
def test_nodes_of_one_rank_have_every_place_of_the_mesh_once(parallel: Parallel, node: int) -> None:
    gpus = parallel.copy * (parallel.dp or 1)
    single = node_groups(parallel, [1] * gpus)
    assert set(Counter(each.coordinates for each in single).values()) == {1}
    # A node has what its ranks have.
    slots = [min(node, gpus - first) for first in range(0, gpus, node)]
    for group in node_groups(parallel, slots):
        for name, places in group.coordinates:
            assert set(places) == {single[rank].by_dimension[name][0] for rank in group.ranks}
