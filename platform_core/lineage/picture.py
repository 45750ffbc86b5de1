"""Where the items of a family stand in a picture: a column a generation, origins on the left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from platform_core.lineage.graph import Edge, Item, Tree

MOST_ROWS = 10  # of a column; the others are counted


@dataclass(frozen=True, slots=True)
class Picture:
    columns: tuple[tuple[Item, ...], ...]  # from the first origin to the last product; top to bottom
    left_out: tuple[int, ...]  # of each column
    lines: tuple[Edge, ...]  # between items that are in it


def picture(up: Tree, down: Tree, most_rows: int = MOST_ROWS) -> Picture:
    """The start stands alone in its column. Items stand near their neighbours in the column before, so that few lines
    cross (the barycentre rule: Sugiyama, Tagawa and Toda 1981, section IV).

    An item that is both an origin and a product of the start stands with the origins.
    """
    depth = {**down.depths, **{item: -steps for item, steps in up.depths.items()}}
    edges = sorted(up.edges | down.edges)
    by_column: dict[int, list[Item]] = {}
    for item in sorted(depth):
        by_column.setdefault(depth[item], []).append(item)
    shown: dict[int, tuple[Item, ...]] = {0: (up.start,)}
    neighbours = _neighbours(edges)
    for column in (*range(-1, min(by_column) - 1, -1), *range(1, max(by_column) + 1)):
        inner = shown[column + 1 if column < 0 else column - 1]
        shown[column] = _ordered(by_column.get(column, []), inner, neighbours)[:most_rows]
    # A product that is an origin as well stands with the origins, and may leave its other column empty.
    order = [column for column in sorted(shown) if shown[column]]
    drawn = {item for column in order for item in shown[column]}
    return Picture(
        tuple(shown[column] for column in order),
        tuple(len(by_column[column]) - len(shown[column]) for column in order),
        tuple(edge for edge in edges if edge.source in drawn and edge.derived in drawn),
    )


def _neighbours(edges: Iterable[Edge]) -> Mapping[Item, Sequence[Item]]:
    found: dict[Item, list[Item]] = {}
    for edge in edges:
        found.setdefault(edge.source, []).append(edge.derived)
        found.setdefault(edge.derived, []).append(edge.source)
    return found


def _ordered(
    items: Sequence[Item], inner: Sequence[Item], neighbours: Mapping[Item, Sequence[Item]]
) -> tuple[Item, ...]:
    """By the mean row of their neighbours in the inner column; those whose neighbours are not shown come last."""
    rows = {item: row for row, item in enumerate(inner)}

    def place(item: Item) -> tuple[float, Item]:
        near = [rows[other] for other in neighbours.get(item, ()) if other in rows]
        return (sum(near) / len(near) if near else float(len(inner)), item)

    return tuple(sorted(items, key=place))
