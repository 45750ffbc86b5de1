"""The picture of a family as boxes and lines, in pixels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.urls import reverse

from platform_core.lineage.graph import Item, Kind
from platform_core.lineage.picture import picture
from platform_core.units import plural
from webapp.lineage.items import Description
from webapp.lineage.queries import Family

WIDTH, HEIGHT, GAP_X, GAP_Y = 190, 46, 56, 14
LONGEST = 25  # characters of a label that a box holds

KIND_WORDS = {
    Kind.DATASET: "dataset version", Kind.CODE: "code bundle", Kind.RUN: "run", Kind.CHECKPOINT: "checkpoint",
    Kind.MODEL: "model version", Kind.EVALUATION: "evaluation", Kind.DEPLOYMENT: "deployment",
    Kind.ENDPOINT: "endpoint",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Box:
    x: int
    y: int
    kind: str
    label: str  # shortened to fit
    title: str
    url: str
    tone: str  # class of the box


@dataclass(frozen=True, slots=True)
class Note:
    x: int
    y: int
    text: str


@dataclass(frozen=True, slots=True)
class Drawing:
    width: int
    height: int
    boxes: tuple[Box, ...]
    lines: tuple[str, ...]  # paths
    notes: tuple[Note, ...]
    label: str


def draw(family: Family) -> Drawing:
    plan = picture(family.up, family.down)
    most = max(len(column) + (left > 0) for column, left in zip(plan.columns, plan.left_out, strict=True))
    height = most * (HEIGHT + GAP_Y) - GAP_Y
    places: dict[Item, tuple[int, int]] = {}
    notes = []
    for number, (column, left) in enumerate(zip(plan.columns, plan.left_out, strict=True)):
        x, rows = number * (WIDTH + GAP_X), len(column) + (left > 0)
        top = (height - rows * (HEIGHT + GAP_Y) + GAP_Y) // 2
        for row, item in enumerate(column):
            places[item] = (x, top + row * (HEIGHT + GAP_Y))
        if left:
            notes.append(Note(x, top + len(column) * (HEIGHT + GAP_Y) + HEIGHT // 2, f"and {left:,} more"))
    start = family.start
    return Drawing(
        width=len(plan.columns) * (WIDTH + GAP_X) - GAP_X,
        height=height,
        boxes=tuple(
            _box(family.described[item], x, y, item == start.item) for item, (x, y) in places.items()
        ),
        lines=tuple(_line(places[edge.source], places[edge.derived]) for edge in plan.lines),
        notes=tuple(notes),
        label=f"{plural(len(family.up.items), 'origin')} of {start.label}, and "
        f"{plural(len(family.down.items), 'item')} made from it",
    )


def url_of(one: Description) -> str:
    """Its own page; "" for what has none."""
    match one.item.kind:
        case Kind.DATASET:
            number = one.label.rpartition(" v")[2]
            return f"{reverse('datasets:detail', args=[one.team, one.name])}?version={number}"
        case Kind.RUN:
            return reverse("runs:detail", args=[one.item.id])
        case Kind.CHECKPOINT:
            return f"{reverse('jobs:detail', args=[one.name])}?tab=checkpoints"
        case Kind.MODEL | Kind.EVALUATION:
            return reverse("registry:detail", args=[one.team, one.name])
        case Kind.DEPLOYMENT:
            return reverse("deployments:detail", args=[one.item.id])
        case Kind.ENDPOINT:
            return reverse("serving:detail", args=[one.team, one.name])
    return ""


def lineage_url(item: Item) -> str:
    return reverse("lineage:detail", args=[item.kind.value, item.id])


def _box(one: Description, x: int, y: int, is_start: bool) -> Box:
    words = KIND_WORDS[one.item.kind]
    label = one.label if len(one.label) <= LONGEST else f"{one.label[: LONGEST - 1]}…"
    tones = [word for word, holds in (("bad", one.recalled), ("start", is_start)) if holds]
    title = f"{words} {one.label} of {one.team}" + (f": {one.recalled}" if one.recalled else "")
    return Box(
        x,
        y,
        f"{words}, recalled" if one.recalled else words,
        label,
        title,
        lineage_url(one.item),
        " ".join(tones),
    )


def _line(source: tuple[int, int], derived: tuple[int, int]) -> str:
    """From the right edge of the one to the left edge of the other, bent in the gap between columns."""
    x1, y1 = source[0] + WIDTH, source[1] + HEIGHT // 2
    x2, y2 = derived[0], derived[1] + HEIGHT // 2
    bend = GAP_X // 2
    return f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"


def counts(items: Mapping[Item, Description]) -> str:
    """ "2 runs and 1 endpoint", by kind."""
    by_kind = [
        plural(sum(item.kind is kind for item in items), word)
        for kind, word in KIND_WORDS.items()
        if any(item.kind is kind for item in items)
    ]
    return " and ".join(filter(None, [", ".join(by_kind[:-1]), *by_kind[-1:]])) or "nothing"
