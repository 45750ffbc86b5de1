"""Images, tables, histograms, texts and sounds that a run logged, one step at a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.http import QueryDict
from django.urls import reverse

from platform_core.errors import TrainmasterError
from webapp.accounts.permissions import Actor
from webapp.base.parsing import whole_number
from webapp.experiments import rich_values
from webapp.experiments.models import RichValue, Run

MOST_KEYS = 60  # shown
MOST_VALUES = 50  # of one key at one step
ROWS, COLUMNS = 200, 30


@dataclass(frozen=True, slots=True)
class Bin:
    x: float  # in percent of the picture
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class Value:
    kind: str
    caption: str
    file: str  # the address of its bytes, "" without
    text: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()
    is_cut: bool = False
    bins: Sequence[Bin] = ()
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Shown:
    """One key at one of its steps."""

    key: str
    number: int  # of the key on the page
    place: int  # of the step among the steps of the key
    last: int
    step: int
    values: Sequence[Value]


@dataclass(frozen=True, slots=True)
class MediaPart:
    shown: Sequence[Shown]
    more: int  # keys that are not shown


def part(actor: Actor, run: Run, query: QueryDict) -> MediaPart:
    """All keys at their last steps; of a query with a key, this one at the place of its slider."""
    keys = [entry.key for entry in rich_values.keys(actor, run)]
    if wanted := query.get("key", ""):
        if wanted not in keys:
            raise TrainmasterError("not_found", what=f"value {wanted[:60]} of this run")
        place = whole_number(query.get("place", "") or "0", "place", 10**9)
        return MediaPart([_shown(actor, run, wanted, keys.index(wanted), place)], 0)
    shown = [_shown(actor, run, key, number, None) for number, key in enumerate(keys[:MOST_KEYS])]
    return MediaPart(shown, max(0, len(keys) - MOST_KEYS))


def _shown(actor: Actor, run: Run, key: str, number: int, place: int | None) -> Shown:
    steps = rich_values.steps(actor, run, key)
    last = len(steps) - 1
    place = last if place is None else min(place, last)
    values = rich_values.at_step(actor, run, key, steps[place])[:MOST_VALUES]
    return Shown(key, number, place, last, steps[place], [_value(run, value) for value in values])


def _value(run: Run, value: RichValue) -> Value:
    file = reverse("api-run-value-file", args=[run.id, value.pk]) if value.place else ""
    document: dict[str, Any] = value.document or {}
    if value.kind == "table":
        rows = [[_text(cell) for cell in row[:COLUMNS]] for row in document["rows"][:ROWS]]
        head = [str(name) for name in document["columns"][:COLUMNS]]
        is_cut = len(document["rows"]) > ROWS or len(document["columns"]) > COLUMNS
        return Value(value.kind, value.caption, file, head=head, rows=rows, is_cut=is_cut)
    if value.kind == "histogram":
        edges, counts = document["edges"], document["counts"]
        return Value(value.kind, value.caption, file, bins=_bins(edges, counts), low=edges[0], high=edges[-1])
    return Value(value.kind, value.caption, file, text=document.get("text", ""))


def _bins(edges: Sequence[float], counts: Sequence[float]) -> list[Bin]:
    span, most = (edges[-1] - edges[0]) or 1.0, max(counts, default=0) or 1
    return [
        Bin(
            round(100 * (edges[place] - edges[0]) / span, 3),
            round(100 * (edges[place + 1] - edges[place]) / span, 3),
            round(100 * count / most, 3),
        )
        for place, count in enumerate(counts)
    ]


def _text(cell: Any) -> str:
    return "" if cell is None else f"{cell:.6g}" if isinstance(cell, float) else str(cell)[:500]
