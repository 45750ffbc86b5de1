"""Which groups of a layout the ranks of each node belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from platform_core.jobs.parallel import Parallel


@dataclass(frozen=True, slots=True)
class NodeGroups:
    """`coordinates`: of each dimension with more than one rank, which of its places the ranks of the node have."""

    ranks: range
    coordinates: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The ranks and the coordinates as a table shows them: "4-7", "1", "0-3"."""
        return (ranges(self.ranks), *(ranges(places) for _, places in self.coordinates))

    @property
    def by_dimension(self) -> dict[str, tuple[int, ...]]:
        return dict(self.coordinates)


def node_groups(parallel: Parallel, slots: Sequence[int]) -> tuple[NodeGroups, ...]:
    """`slots`: of each node, in order of rank. The number of copies follows from them."""
    dimensions = parallel.sized(sum(slots)).dimensions
    found = []
    first = 0
    for count in slots:
        ranks = range(first, first + count)
        places = [_coordinates(dimensions, rank) for rank in ranks]
        coordinates = tuple(
            (name, tuple(sorted({place[axis] for place in places})))
            for axis, (name, _) in enumerate(dimensions)
        )
        found.append(NodeGroups(ranks, coordinates))
        first += count
    return tuple(found)


def _coordinates(dimensions: Sequence[tuple[str, int]], rank: int) -> tuple[int, ...]:
    places = []
    for _, size in reversed(dimensions):
        rank, place = divmod(rank, size)
        places.append(place)
    return tuple(reversed(places))


def ranges(numbers: Iterable[int]) -> str:
    """Ascending numbers in few words: "0-3, 8"."""
    return ", ".join(f"{low}-{high}" if low < high else str(low) for low, high in _runs(numbers))


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    run: tuple[int, int] | None = None
    for number in numbers:
        if run and number == run[1] + 1:
            run = run[0], number
            continue
        if run:
            yield run
        run = number, number
    if run:
        yield run
