from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from platform_core.errors import TrainmasterError
from platform_core.lineage.graph import Direction, Item, Kind, Tree, grow, plant, without
from webapp.accounts.permissions import Actor
from webapp.lineage import items
from webapp.lineage.edges import neighbours
from webapp.lineage.items import Description

MOST_ITEMS = 2_000  # of a tree that is shown; a recall has no limit of its own


@dataclass(frozen=True, slots=True)
class Family:
    """One item with what it comes from and what came of it, as far as the reader may see."""

    start: Description
    up: Tree
    down: Tree
    described: Mapping[Item, Description]
    hidden: int  # items of other teams, and what is reached through them only

    def listed(self, tree: Tree) -> list[Item]:
        """Nearest first, then by type, the newest of a type first."""
        return sorted(
            tree.items, key=lambda item: (tree.depths[item], item.kind, -self.described[item].at_ms, item)
        )


def item_of(kind: str, item_id: str) -> Item:
    """Raises not_found for a kind that does not exist."""
    if kind not in set(Kind):
        raise TrainmasterError("not_found", what=f"kind {kind[:40]!r}; it is one of {', '.join(Kind)}")
    return Item(Kind(kind), item_id[:40])


def described(actor: Actor, item: Item) -> Description:
    """Raises not_found, also where the actor may not see it."""
    found = items.describe([item]).get(item)
    if found is None or not items.sees(actor, found):
        raise TrainmasterError("not_found", what=f"{item.kind.value} {item.id}")
    return found


def family(actor: Actor, item: Item, limit: int = MOST_ITEMS) -> Family:
    """Raises not_found."""
    start = described(actor, item)
    up, down = tree(item, Direction.UPSTREAM, limit), tree(item, Direction.DOWNSTREAM, limit)
    known = items.describe({*up.depths, *down.depths})
    hidden = {one for one, description in known.items() if not items.sees(actor, description)}
    hidden |= {*up.depths, *down.depths} - set(known)
    seen_up, seen_down = without(up, hidden), without(down, hidden)
    shown = {*seen_up.depths, *seen_down.depths}
    return Family(
        start, seen_up, seen_down, {one: known[one] for one in shown},
        len({*up.depths, *down.depths} & set(known) - shown),
    )  # fmt: skip


def tree(item: Item, direction: Direction, limit: int) -> Tree:
    """Whoever may see it."""
    grown = plant(item, direction)
    while grown.frontier:
        grown = grow(grown, neighbours(grown.frontier, direction), limit)
    return grown


def owners(of: Iterable[Item]) -> dict[Item, str]:
    """Username of the person whose item it is."""
    return {item: one.owner for item, one in items.describe(of).items()}
