"""Which node of a gang gets which ranks: stages or data groups near, by what they send."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from platform_core.cluster.rank_order import links_between_racks, node_order
from platform_core.cluster.snapshot import PendingJob, RankTraffic
from platform_core.cluster.topology import Islands, islands
from platform_core.scheduling.engine import plan
from platform_core.scheduling.placement.search import take_slots
from tests.core.scheduling.situations import node, pending, snapshot

LIGHT_STAGES, LIGHT_DATA = RankTraffic(1, 1_000), RankTraffic(1_000, 1)
FOUR = ["east", "east", "west", "west"]


def staged(stages: int, traffic: RankTraffic, *, gpus: int = 32, tensor: int = 1) -> PendingJob:
    return replace(pending("job", gpus), stages=stages, traffic=traffic, tensor=tensor, group=tensor)


def order_of(job: PendingJob, racks: Sequence[Hashable], slots: int) -> tuple[int, ...]:
    return node_order(racks, job.stages, job.traffic.between_nodes(slots, job.tensor))


def test_data_groups_lie_in_one_rack_where_they_send_more() -> None:
    assert order_of(staged(2, LIGHT_STAGES), FOUR, 8) == (0, 1, 2, 3)


def test_pipeline_neighbours_lie_in_one_rack_where_they_send_more() -> None:
    assert order_of(staged(2, LIGHT_DATA), FOUR, 8) == (0, 2, 1, 3)


def test_pipeline_neighbours_are_near_where_the_model_is_not_known() -> None:
    unknown = replace(pending("job", 32), stages=2)
    assert order_of(unknown, FOUR, 8) == (0, 2, 1, 3)


def test_nothing_is_chosen_in_one_rack_without_stages_or_where_nodes_hold_whole_stages() -> None:
    assert order_of(staged(2, LIGHT_DATA), ["east"] * 4, 8) == (0, 1, 2, 3)
    assert order_of(staged(1, LIGHT_DATA), FOUR, 8) == (0, 1, 2, 3)
    assert order_of(staged(4, LIGHT_DATA), FOUR, 8) == (0, 1, 2, 3)
    assert order_of(staged(8, LIGHT_DATA), FOUR, 8) == (0, 1, 2, 3)


def test_the_seats_of_a_placement_have_the_chosen_ranks() -> None:
    nodes = [node(name, rack=rack) for name, rack in zip("abcd", FOUR, strict=True)]
    for traffic, names in ((LIGHT_STAGES, "abcd"), (LIGHT_DATA, "acbd")):
        [placement] = plan(snapshot(nodes, [staged(2, traffic)])).placements
        assert [seat.rank for seat in placement.members] == [0, 1, 2, 3]
        assert [seat.node for seat in placement.members] == [f"node-{name}" for name in names]


@st.composite
def gangs(draw: st.DrawFn) -> tuple[PendingJob, list[int], int]:
    """A gang with stages of whole nodes, the racks of its nodes, and its slots on each."""
    stages, columns, tensor = (
        draw(st.integers(1, 6)),
        draw(st.integers(1, 6)),
        draw(st.sampled_from([1, 2, 4])),
    )
    slots = tensor * draw(st.integers(1, 4))
    nodes = stages * columns
    racks = sorted(draw(st.lists(st.integers(0, 4), min_size=nodes, max_size=nodes)))
    traffic = RankTraffic(draw(st.integers(0, 10**12)), draw(st.integers(0, 10**12)))
    return staged(stages, traffic, gpus=nodes * slots, tensor=tensor), racks, slots


def between_racks(job: PendingJob, racks: list[int], slots: int, order: tuple[int, ...]) -> int:
    """Counted rank by rank, as a script sees it: pp, then the data group, then tp."""
    rack_of = [racks[position] for position in order for _ in range(slots)]
    stage = len(rack_of) // job.stages
    total = 0
    for rank, rack in enumerate(rack_of):
        if rank + stage < len(rack_of) and rack_of[rank + stage] != rack:
            total += job.traffic.pipeline
        first = rank // stage * stage
        following = first + (rank - first + job.tensor) % stage  # in the ring of its data group
        if rack_of[following] != rack:
            total += job.traffic.data
    return total


@given(gangs())
def test_every_node_gets_its_ranks_once(gang: tuple[PendingJob, list[int], int]) -> None:
    job, racks, slots = gang
    assert Counter(order_of(job, racks, slots)) == Counter(range(len(racks)))


@given(gangs())
def test_the_chosen_order_sends_no_more_between_racks_than_either(
    gang: tuple[PendingJob, list[int], int],
) -> None:
    job, racks, slots = gang
    columns = len(racks) // job.stages
    by_stage = tuple(range(len(racks)))
    by_column = tuple(column * job.stages + stage for stage in range(job.stages) for column in range(columns))
    chosen = between_racks(job, racks, slots, order_of(job, racks, slots))
    assert chosen <= between_racks(job, racks, slots, by_stage)
    assert chosen <= between_racks(job, racks, slots, by_column)


@given(gangs())
def test_links_by_nodes_are_the_links_by_ranks(gang: tuple[PendingJob, list[int], int]) -> None:
    job, racks, slots = gang
    pipeline, data = links_between_racks(racks, job.stages)
    sent = pipeline * slots * job.traffic.pipeline + data * job.tensor * job.traffic.data
    assert sent == between_racks(job, racks, slots, tuple(range(len(racks))))


def test_a_tensor_group_is_not_cut_by_islands() -> None:
    of = ((0, 1, 2, 3), (4, 5, 6, 7))
    assert take_slots((0, 1, 2, 4, 5, 6), of, 4) == ((0, 1, 2, 4), (5, 6))
    assert take_slots((0, 1, 2, 4, 5, 6), of, 4, tensor=2) == ((0, 1, 4, 5), (2, 6))
    assert take_slots((0, 1, 2, 4, 5), of, 2, tensor=2) == ((4, 5), (0, 1, 2))


@st.composite
def linked_slots(draw: st.DrawFn) -> tuple[tuple[int, ...], Islands]:
    """Free slots of a node whose islands are neighbours, as NVLink islands are."""
    sizes = draw(st.lists(st.integers(2, 5), min_size=2, max_size=4))
    numbers = [number for number, size in enumerate(sizes, 1) for _ in range(size)]
    free = draw(st.sets(st.integers(0, len(numbers) - 1)))
    return tuple(sorted(free)), islands(enumerate(numbers))


@given(linked_slots(), st.integers(1, 4), st.integers(1, 6))
def test_tensor_groups_lie_in_islands_where_the_free_slots_allow_it(
    situation: tuple[tuple[int, ...], Islands], tensor: int, groups: int
) -> None:
    free, of = situation
    count = tensor * groups
    within = sum(len(set(island) & set(free)) // tensor for island in of)
    if len(free) < count:
        return
    taken, left = take_slots(free, of, count, tensor)
    assert tuple(sorted((*taken, *left))) == free
    assert len(taken) == count
    if within >= groups:
        for first in range(0, count, tensor):
            assert any(set(taken[first : first + tensor]) <= set(island) for island in of)
