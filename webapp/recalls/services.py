from collections.abc import Collection, Sequence

from platform_core import ids
from platform_core.lineage.graph import Item
from webapp.accounts import queries as accounts
from webapp.accounts.permissions import Actor
from webapp.base.identity import new_id, now_ms
from webapp.recalls.models import Mark, Recall


def begin(actor: Actor, team: str, item: Item, label: str, reason: str, reached: Collection[Item]) -> Recall:
    """Inside the caller's transaction, which knows that the actor may. `reached`: what was made from the item."""
    recall = Recall.objects.create(
        id=new_id(ids.RECALL), team_id=team, kind=item.kind, item=item.id, label=label[:300], reason=reason,
        recalled_by=accounts.user(actor.username), recalled_ms=now_ms(),
    )  # fmt: skip
    extend(recall, {item, *reached})
    return recall


def extend(recall: Recall, items: Collection[Item]) -> None:
    """Items that it reaches already are no error."""
    rows = [Mark(recall=recall, kind=item.kind, item=item.id) for item in sorted(items)]
    Mark.objects.bulk_create(rows, batch_size=5_000, ignore_conflicts=True)


def tell(recall: Recall, outcome: Sequence[str]) -> None:
    """Keeps what was done because of it."""
    Recall.objects.filter(pk=recall.pk).update(outcome=list(outcome))


def lift(actor: Actor, recall: Recall) -> None:
    """Idempotent: the first one who lifts it stays named."""
    rows = Recall.objects.filter(pk=recall.pk, lifted_ms=None)
    rows.update(lifted_ms=now_ms(), lifted_by=accounts.user(actor.username))
