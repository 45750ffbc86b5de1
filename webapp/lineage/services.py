"""Recalls: a bad item and all that came of it are marked, stopped and withdrawn, and their people are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import transaction

from platform_core.errors import TrainmasterError
from platform_core.lineage.graph import Direction, Item, Kind
from platform_core.lineage.recalls import RECALLABLE, marked
from platform_core.units import plural
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.checkpoints import services as checkpoints
from webapp.datasets import queries as datasets
from webapp.events import services as events
from webapp.events.services import Happening
from webapp.lineage import items, letters, queries, withdrawal
from webapp.lineage.items import Description
from webapp.recalls import queries as recall_queries
from webapp.recalls import services as recalls
from webapp.registry import services as registry

if TYPE_CHECKING:
    from webapp.recalls.models import Recall

LONGEST_REASON = 2_000
MOST_REACHED = 200_000  # beyond that it is no recall of one item any more


@dataclass(frozen=True, slots=True)
class Wish:
    """What else is done: jobs that are made from it are cancelled, services go back to an earlier version."""

    stop_jobs: bool = True
    withdraw: bool = True


@dataclass(frozen=True, slots=True)
class Reach:
    """What a recall of the item would mark (`marked`, itself included) and touch (`described`, services too)."""

    start: Description
    marked: frozenset[Item]
    described: dict[Item, Description]


def reach(actor: Actor, item: Item) -> Reach:
    """Nothing is changed. Raises not_found, not_allowed, and request_invalid for what cannot be recalled."""
    start = queries.described(actor, item)
    permissions.require(actor, "lineage.recall", start.team, owner=start.owner, what=f"{item.kind} {item.id}")
    if item.kind not in RECALLABLE:
        why = f"recall one of {', '.join(sorted(RECALLABLE))} instead"
        raise TrainmasterError(
            "request_invalid", what=f"a recall of {item.kind.value} {start.label}", why=why
        )
    tree = queries.tree(item, Direction.DOWNSTREAM, MOST_REACHED)
    if tree.left_out:
        why = f"more than {MOST_REACHED:,} things came of it; recall what was made of it one by one"
        raise TrainmasterError("request_invalid", what=f"a recall of {start.label}", why=why)
    return Reach(start, marked(tree), items.describe(tree.depths))


def seen(actor: Actor, reached: Reach) -> list[Description]:
    """What the actor may know of, by kind."""
    return [one for _, one in sorted(reached.described.items()) if items.sees(actor, one)]


def recall(actor: Actor, item: Item, reason: str, wish: Wish = Wish()) -> Recall:
    """Marks the item and all that came of it; the mark is there before anything is stopped.

    An item that is recalled already gives that recall, which reaches what was made of it since. Raises what `reach`
    raises, and request_invalid without a reason.
    """
    reason = reason.strip()[:LONGEST_REASON]
    if not reason:
        raise TrainmasterError("request_invalid", what="a recall", why="say what is wrong, in a sentence")
    reached = reach(actor, item)
    with transaction.atomic():
        found = recall_queries.of_item(item)
        start = reached.start
        if found is None:
            found = recalls.begin(actor, start.team, item, start.label, reason, reached.marked)
        else:
            recalls.extend(found, reached.marked)
        events.record_all(_happenings(actor, found, reached))
        letters.write(found, reached.described.values())
    bad = _ids(reached, Kind.MODEL)
    done = withdrawal.cancel_jobs(_ids(reached, Kind.RUN), _cause(found)) if wish.stop_jobs else []
    done += checkpoints.pass_over(_ids(reached, Kind.CHECKPOINT), _cause(found), actor.name)
    done += registry.demote(bad, _cause(found))
    done += withdrawal.withdraw(bad) if wish.withdraw else withdrawal.still_serving(bad)
    recalls.tell(found, [*found.outcome, *done])
    found.refresh_from_db()
    return found


def recall_shard(actor: Actor, snapshot_id: str, path: str, reason: str, wish: Wish = Wish()) -> list[Recall]:
    """Recalls a version of a dataset for one of its files, and every other version that has the same file."""
    reach(actor, Item(Kind.DATASET, snapshot_id))
    row = datasets.snapshot(snapshot_id)
    assert row is not None  # or `reach` would have refused
    why = f"shard {path}: {reason.strip()}" if reason.strip() else ""
    return [recall(actor, Item(Kind.DATASET, one.id), why, wish) for one in datasets.with_shard(row, path)]


def lift(actor: Actor, recall_id: str) -> Recall:
    """Its items may be used again, where no other recall reaches them. Nothing that was stopped is started."""
    found = recall_queries.find(recall_id)
    if found is None or (actor.sees is not None and found.team_id not in actor.sees):
        raise TrainmasterError("not_found", what=f"recall {recall_id}")
    described = items.describe([Item(Kind(found.kind), found.item)])
    owner = next((one.owner for one in described.values()), None)
    permissions.require(actor, "lineage.recall", found.team_id, owner=owner, what=f"recall {recall_id}")
    if found.lifted_ms is None:
        with transaction.atomic():
            recalls.lift(actor, found)
            events.record(
                "RecallLifted", f"recall:{found.id}", actor=actor.name, team=found.team_id, cause=found.label
            )
            reached = [item.id for item in recall_queries.items_of(found) if item.kind is Kind.MODEL]
            registry.restore(reached, f"the recall of {found.label} was lifted by {actor.name}")
        found.refresh_from_db()
    return found


def _cause(found: Recall) -> str:
    return (
        f"{found.kind} {found.label} was recalled by {found.recalled_by.username}: {found.reason.rstrip('.')}"
    )


_SUBJECTS = {Kind.RUN: "job", Kind.DEPLOYMENT: "deployment", Kind.ENDPOINT: "endpoint"}


def _happenings(actor: Actor, found: Recall, reached: Reach) -> list[Happening]:
    """One for the audit log, and one in the story of each job, deployment and endpoint that is reached."""
    counts = plural(len(reached.marked) - 1, "item")
    told = [
        Happening(
            "Recalled", f"recall:{found.id}", actor.name, found.team_id,
            f"{found.kind} {found.label} and {counts} made from it: {found.reason}",
            data={"kind": found.kind, "item": found.item},
        )
    ]  # fmt: skip
    told += [
        Happening("Recalled", f"{_SUBJECTS[item.kind]}:{item.id}", actor.name, one.team, _cause(found))
        for item, one in sorted(reached.described.items())
        if item.kind in _SUBJECTS
    ]
    return told


def _ids(reached: Reach, kind: Kind) -> list[str]:
    return sorted(item.id for item in reached.marked if item.kind is kind)
