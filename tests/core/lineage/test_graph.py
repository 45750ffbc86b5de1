"""Families of random graphs: the tree is what can be reached, whatever the order and however it is cut."""

from collections.abc import Iterable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from platform_core.lineage.graph import DERIVED, Direction, Edge, Item, Kind, Tree, grow, plant, without
from platform_core.lineage.picture import picture
from platform_core.lineage.recalls import RECALLABLE, Version, instead, marked

DATA, RUN, CHECKPOINT = Item(Kind.DATASET, "ds"), Item(Kind.RUN, "run"), Item(Kind.CHECKPOINT, "ckpt")
MODEL, SERVED = Item(Kind.MODEL, "mv"), Item(Kind.ENDPOINT, "end")
LINE = (Edge(DATA, RUN), Edge(RUN, CHECKPOINT), Edge(CHECKPOINT, MODEL), Edge(MODEL, SERVED))

NAMES = ("a", "b", "c")
ITEMS = st.builds(Item, st.sampled_from(sorted(Kind)), st.sampled_from(NAMES))
POSSIBLE = [
    Edge(Item(kind, name), Item(derived, other))
    for kind in sorted(Kind)
    for derived in sorted(DERIVED[kind])
    for name, other in product(NAMES, repeat=2)
    if (kind, name) != (derived, other)
]
EDGES = st.frozensets(st.sampled_from(POSSIBLE), max_size=25)


def grown(start: Item, direction: Direction, edges: Iterable[Edge], limit: int = 1_000) -> Tree:
    tree = plant(start, direction)
    while tree.frontier:
        up = direction is Direction.UPSTREAM
        near = [edge for edge in edges if (edge.derived if up else edge.source) in tree.frontier]
        tree = grow(tree, near, limit)
    return tree


def reached(start: Item, edges: frozenset[Edge], gone: frozenset[Item] = frozenset()) -> set[Item]:
    """By repetition until nothing is new."""
    found = {start}
    while more := {e.derived for e in edges if e.source in found and e.derived not in gone} - found:
        found |= more
    return found


@given(ITEMS, EDGES)
def test_a_tree_has_exactly_what_can_be_reached(start: Item, edges: frozenset[Edge]) -> None:
    tree = grown(start, Direction.DOWNSTREAM, edges)
    assert set(tree.depths) == reached(start, edges)
    assert set(tree.items) == set(tree.depths) - {start}
    assert all(tree.depths[e.derived] <= tree.depths[e.source] + 1 for e in tree.edges)
    backwards = frozenset(
        edge for edge in edges if start in grown(edge.derived, Direction.DOWNSTREAM, edges).depths
    )
    assert grown(start, Direction.UPSTREAM, edges).edges == backwards


@given(ITEMS, EDGES, st.frozensets(ITEMS, max_size=8))
def test_what_is_hidden_hides_what_is_reached_through_it_only(
    start: Item, edges: frozenset[Edge], hidden: frozenset[Item]
) -> None:
    tree = grown(start, Direction.DOWNSTREAM, edges)
    assert set(without(tree, hidden).depths) == reached(start, edges, hidden - {start})


@given(ITEMS, EDGES, st.integers(1, 6))
def test_a_tree_that_is_cut_counts_what_it_left_out(start: Item, edges: frozenset[Edge], limit: int) -> None:
    tree = grown(start, Direction.DOWNSTREAM, edges, limit)
    assert len(tree.depths) <= limit + 1
    assert bool(tree.left_out) == (len(reached(start, edges)) > len(tree.depths))


@given(ITEMS, EDGES, st.integers(1, 4))
def test_a_picture_has_each_item_once_and_counts_the_others(
    start: Item, edges: frozenset[Edge], most_rows: int
) -> None:
    up, down = (grown(start, direction, edges) for direction in Direction)
    drawn = picture(up, down, most_rows)
    items = [item for column in drawn.columns for item in column]
    assert len(items) == len(set(items))
    assert len(items) + sum(drawn.left_out) == len({*up.depths, *down.depths})
    assert all(len(column) <= most_rows for column in drawn.columns)
    assert all({edge.source, edge.derived} <= set(items) for edge in drawn.lines)
    assert (start,) in drawn.columns


def test_a_model_made_from_data_stands_to_the_right_of_it() -> None:
    drawn = picture(
        grown(CHECKPOINT, Direction.UPSTREAM, LINE), grown(CHECKPOINT, Direction.DOWNSTREAM, LINE)
    )
    assert drawn.columns == ((DATA,), (RUN,), (CHECKPOINT,), (MODEL,), (SERVED,))
    assert drawn.lines == tuple(sorted(LINE))


def test_products_that_are_origins_as_well_leave_no_empty_column() -> None:
    run, model, later = Item(Kind.RUN, "a"), Item(Kind.MODEL, "b"), Item(Kind.CHECKPOINT, "c")
    around = (Edge(run, later), Edge(later, model), Edge(model, run))
    drawn = picture(grown(run, Direction.UPSTREAM, around), grown(run, Direction.DOWNSTREAM, around))
    assert drawn.columns == ((later,), (model,), (run,))
    served = Item(Kind.ENDPOINT, "d")
    beyond = (*around, Edge(model, served))
    drawn = picture(grown(run, Direction.UPSTREAM, beyond), grown(run, Direction.DOWNSTREAM, beyond))
    assert drawn.columns[-1] == (served,)
    assert all(drawn.columns)


def test_an_edge_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="endpoint:end"):
        Edge(SERVED, DATA)
    with pytest.raises(ValueError, match="was not asked for"):
        grow(plant(DATA, Direction.DOWNSTREAM), [LINE[1]], 10)


def test_a_recall_marks_what_can_be_used_again_and_nothing_less_than_all() -> None:
    assert marked(grown(DATA, Direction.DOWNSTREAM, LINE)) == {DATA, RUN, CHECKPOINT, MODEL}
    for part in (
        grown(DATA, Direction.UPSTREAM, LINE),
        plant(DATA, Direction.DOWNSTREAM),
        grown(DATA, Direction.DOWNSTREAM, LINE, 2),
    ):
        with pytest.raises(ValueError, match="everything that came of the item"):
            marked(part)


@given(EDGES, ITEMS)
def test_everything_that_is_marked_can_be_recalled_itself(edges: frozenset[Edge], start: Item) -> None:
    assert {item.kind for item in marked(grown(start, Direction.DOWNSTREAM, edges))} <= RECALLABLE


def test_an_endpoint_falls_back_to_the_newest_good_version_before_its_own() -> None:
    versions = [Version(f"v{n}", n, is_usable=n != 3) for n in range(1, 7)]
    assert instead(5, versions, {"v5", "v4"}) == versions[1]
    assert instead(5, versions, {"v1", "v2", "v4", "v5"}) is None
