from collections.abc import Iterable
from datetime import UTC, datetime

from django.db.models import Exists, OuterRef, QuerySet

from platform_core.lineage.graph import Item, Kind
from webapp.recalls.models import Mark, Recall


def why(kind: Kind, item: str) -> str:
    """Why nothing may be made from this item any more; "" while nobody has recalled it or what it comes from."""
    return whys(kind, [item]).get(item, "")


def whys(kind: Kind, items: Iterable[str]) -> dict[str, str]:
    """Item → why, in one query; items that may be used are left out."""
    rows = _in_force().filter(kind=kind, item__in=list(items)).select_related("recall__recalled_by")
    return {row.item: _sentence(row) for row in rows.order_by("-recall__recalled_ms", "-recall_id")}


def marked(kind: Kind) -> QuerySet[Mark, str]:
    """The ids of the items of this kind that are recalled, as a subquery."""
    return _in_force().filter(kind=kind).values_list("item", flat=True)


def is_marked(kind: Kind, item: str) -> Exists:
    """Whether the row's field `item` names a recalled item of this kind, to annotate a query with."""
    return Exists(_in_force().filter(kind=kind, item=OuterRef(item)))


def marks(items: Iterable[Item]) -> dict[Item, str]:
    """Item → why, of items of several kinds."""
    by_kind: dict[Kind, list[str]] = {}
    for item in items:
        by_kind.setdefault(item.kind, []).append(item.id)
    return {Item(kind, one): why for kind, ids in by_kind.items() for one, why in whys(kind, ids).items()}


def recalls(teams: Iterable[str] | None, limit: int = 200) -> list[Recall]:
    """Of items of these teams (None: of all), the newest first."""
    rows = Recall.objects.select_related("recalled_by", "lifted_by").order_by("-recalled_ms", "id")
    return list((rows if teams is None else rows.filter(team__in=list(teams)))[:limit])


def find(recall_id: str) -> Recall | None:
    return Recall.objects.select_related("recalled_by", "lifted_by").filter(id=recall_id).first()


def of_item(item: Item) -> Recall | None:
    """The recall of this very item that is in force."""
    rows = Recall.objects.select_related("recalled_by")
    return rows.filter(kind=item.kind, item=item.id, lifted_ms=None).first()


def items_of(recall: Recall) -> list[Item]:
    return sorted(Item(Kind(kind), item) for kind, item in recall.marks.values_list("kind", "item"))


def _in_force() -> QuerySet[Mark]:
    return Mark.objects.filter(recall__lifted_ms=None)


def _sentence(row: Mark) -> str:
    recall = row.recall
    on = f"{datetime.fromtimestamp(recall.recalled_ms / 1000, UTC):%Y-%m-%d}"
    by = f"recalled by {recall.recalled_by.username} on {on}: {recall.reason.rstrip('.')}"
    if (row.kind, row.item) == (recall.kind, recall.item):
        return f"it was {by}"
    return f"it comes from {recall.kind} {recall.label}, {by}"
