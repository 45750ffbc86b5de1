"""The pages of lineage: the family of an item, its recall, and all recalls."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST, require_safe

from platform_core.errors import TrainmasterError
from platform_core.lineage.graph import Item, Kind, Tree
from platform_core.lineage.recalls import RECALLABLE
from webapp.accounts import permissions
from webapp.accounts.permissions import Actor
from webapp.accounts.queries import actor_of
from webapp.lineage import queries, services
from webapp.lineage.items import Description
from webapp.pages import fragments
from webapp.pages.lineage import drawing
from webapp.pages.lineage.drawing import Drawing
from webapp.recalls import queries as recalls
from webapp.recalls.models import Recall

ROWS_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Line:
    kind: str
    one: Description
    depth: int
    url: str
    lineage: str


@dataclass(frozen=True, slots=True)
class FamilyPage:
    start: Description
    kind: str
    url: str
    drawing: Drawing
    upstream: tuple[Line, ...]
    downstream: tuple[Line, ...]
    hidden: int
    left_out: int
    recall: Recall | None
    may_recall: bool
    reach: str  # what a recall would touch, in words
    reason: str  # as it was sent, where that was refused
    problems: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RecallRow:
    recall: Recall
    kind: str
    lineage: str
    may_lift: bool


@dataclass(frozen=True, slots=True)
class RecallsPage:
    recalls: tuple[RecallRow, ...]


@login_required
@require_safe
def detail(request: HttpRequest, kind: str, item_id: str) -> HttpResponse:
    return _detail(request, queries.item_of(kind, item_id))


def _detail(
    request: HttpRequest, item: Item, reason: str = "", problem: str = "", status: int = 200
) -> HttpResponse:
    actor = actor_of(request)
    family = queries.family(actor, item)
    start = family.start
    page = FamilyPage(
        start=start,
        kind=drawing.KIND_WORDS[item.kind],
        url=drawing.url_of(start),
        drawing=drawing.draw(family),
        upstream=_lines(family, family.up),
        downstream=_lines(family, family.down),
        hidden=family.hidden,
        left_out=family.up.left_out + family.down.left_out,
        recall=recalls.of_item(item),
        may_recall=_may_recall(actor, start),
        reach=drawing.counts({one: family.described[one] for one in family.down.items}),
        reason=reason,
        problems={"reason": problem} if problem else {},
    )
    return fragments.render(request, "lineage/detail.html", page, status=status)


def _lines(family: queries.Family, tree: Tree) -> tuple[Line, ...]:
    return tuple(
        Line(
            drawing.KIND_WORDS[item.kind], one := family.described[item], tree.depths[item], drawing.url_of(one),
            drawing.lineage_url(item),
        )
        for item in family.listed(tree)[:ROWS_SHOWN]
    )  # fmt: skip


def _may_recall(actor: Actor, one: Description) -> bool:
    return one.item.kind in RECALLABLE and permissions.may(actor, "lineage.recall", one.team, one.owner)


@login_required
@require_POST
def recall(request: HttpRequest, kind: str, item_id: str) -> HttpResponse:
    item, reason = queries.item_of(kind, item_id), request.POST.get("reason", "")
    wish = services.Wish("stop_jobs" in request.POST, "withdraw" in request.POST)
    try:
        actor, shard = actor_of(request), request.POST.get("shard", "").strip()
        if shard and item.kind is Kind.DATASET:
            done = services.recall_shard(actor, item.id, shard, reason, wish)[0]
        else:
            done = services.recall(actor, item, reason, wish)
    except TrainmasterError as error:
        if error.code != "request_invalid" and not (error.code == "not_found" and request.POST.get("shard")):
            raise
        return _detail(request, item, reason, error.sentence, status=422)
    messages.success(request, f"{done.kind.capitalize()} {done.label} and all that came of it are recalled.")
    return redirect("lineage:detail", kind=kind, item_id=item_id)


@login_required
@require_safe
def recall_list(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    rows = recalls.recalls(actor.sees)
    owners = queries.owners(Item(Kind(row.kind), row.item) for row in rows)
    page = RecallsPage(tuple(_row(actor, row, owners) for row in rows))
    return fragments.render(request, "lineage/recalls.html", page)


def _row(actor: Actor, row: Recall, owners: Mapping[Item, str]) -> RecallRow:
    item = Item(Kind(row.kind), row.item)
    may_lift = row.lifted_ms is None and permissions.may(
        actor, "lineage.recall", row.team_id, owners.get(item)
    )
    return RecallRow(row, drawing.KIND_WORDS[item.kind], drawing.lineage_url(item), may_lift)


@login_required
@require_POST
def lift(request: HttpRequest, recall_id: str) -> HttpResponse:
    lifted = services.lift(actor_of(request), recall_id)
    messages.success(request, f"The recall of {lifted.kind} {lifted.label} is lifted.")
    return redirect("lineage:recalls")
