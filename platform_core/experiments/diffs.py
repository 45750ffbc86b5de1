"""Two texts side by side, line against line, and what changed between two lists of files or packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

CONTEXT = 3  # lines shown before and after a change
MOST_LINES = 20_000  # of a text: the comparison takes the square of it at worst


@dataclass(frozen=True, slots=True)
class Line:
    """A row of the picture: `kind` is same, changed, removed, added or gap; numbers begin at 1, None on the side that
    lacks the line. A gap stands for `skipped` equal lines."""

    kind: str
    left_number: int | None = None
    left: str = ""
    right_number: int | None = None
    right: str = ""
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """`before` or `after` is None where the name is missing on that side."""

    name: str
    before: str | None
    after: str | None

    @property
    def kind(self) -> str:
        return "added" if self.before is None else "removed" if self.after is None else "changed"


def changes(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """Returns the names whose value differs, in order."""
    names = sorted(before.keys() | after.keys())
    rows = (Change(name, before.get(name), after.get(name)) for name in names)
    return [row for row in rows if row.before != row.after]


def side_by_side(left: str, right: str, context: int = CONTEXT) -> list[Line]:
    """Returns the lines that differ with their surroundings; nothing for equal texts."""
    lines = left.splitlines()[:MOST_LINES], right.splitlines()[:MOST_LINES]
    if lines[0] == lines[1]:
        return []
    matcher = SequenceMatcher(None, *lines, autojunk=max(map(len, lines)) > 2_000)
    return _with_gaps(_rows(matcher.get_opcodes(), *lines), context)


def _rows(
    opcodes: Sequence[tuple[str, int, int, int, int]], left: Sequence[str], right: Sequence[str]
) -> list[Line]:
    rows: list[Line] = []
    for tag, left_from, left_to, right_from, right_to in opcodes:
        kind = "same" if tag == "equal" else "changed"
        for step in range(max(left_to - left_from, right_to - right_from)):
            here, there = left_from + step, right_from + step
            if here < left_to and there < right_to:
                rows.append(Line(kind, here + 1, left[here], there + 1, right[there]))
            elif here < left_to:
                rows.append(Line("removed", left_number=here + 1, left=left[here]))
            else:
                rows.append(Line("added", right_number=there + 1, right=right[there]))
    return rows


def _with_gaps(rows: Sequence[Line], context: int) -> list[Line]:
    differing = [place for place, row in enumerate(rows) if row.kind != "same"]
    shown = {
        near
        for place in differing
        for near in range(max(0, place - context), min(len(rows), place + context + 1))
    }
    result: list[Line] = []
    skipped = 0
    for place, row in enumerate(rows):
        if place not in shown:
            skipped += 1
            continue
        if skipped:
            result.append(Line("gap", skipped=skipped))
            skipped = 0
        result.append(row)
    return [*result, Line("gap", skipped=skipped)] if skipped else result
