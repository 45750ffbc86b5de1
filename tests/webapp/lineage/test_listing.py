"""In which order a page and REST list what came of an item."""

from platform_core.lineage.graph import Direction, Item, Kind, Tree
from webapp.lineage.items import Description
from webapp.lineage.queries import Family

DATA, OLD, NEW = Item(Kind.DATASET, "ds"), Item(Kind.RUN, "a-old"), Item(Kind.RUN, "b-new")
EARLY, LATE, MODEL = Item(Kind.CHECKPOINT, "a"), Item(Kind.CHECKPOINT, "b"), Item(Kind.MODEL, "c")
MADE = {DATA: 1, OLD: 2, EARLY: 3, MODEL: 4, LATE: 5, NEW: 6}


def test_the_nearest_come_first_then_types_together_with_the_newest_first() -> None:
    tree = Tree(DATA, Direction.DOWNSTREAM, {DATA: 0, OLD: 1, NEW: 1, MODEL: 2, EARLY: 2, LATE: 2})
    described = {item: Description(item, item.id, "vision", "alice", at_ms) for item, at_ms in MADE.items()}
    family = Family(described[DATA], Tree(DATA, Direction.UPSTREAM, {DATA: 0}), tree, described, 0)
    assert family.listed(tree) == [NEW, OLD, LATE, EARLY, MODEL]
