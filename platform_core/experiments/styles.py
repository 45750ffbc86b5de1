"""How runs are told apart: a colour from the run's id, and a dash, a marker and a letter for eyes without colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

COLOURS = 12  # --run-1 to --run-12 in static/css/tokens.css
DASHES = 6  # of static/js/chart-style.js
MARKERS = 8


@dataclass(frozen=True, slots=True)
class Style:
    colour: int  # from 0
    dash: int
    marker: int


def home_colour(run_id: str) -> int:
    """The colour that a run has wherever no other run of the same colour is shown."""
    return int.from_bytes(sha256(run_id.encode()).digest()[:4]) % COLOURS


def styles(run_ids: Sequence[str]) -> dict[str, Style]:
    """Returns a style for each run; the order in which they are named does not matter.

    Up to COLOURS runs have different colours, up to DASHES * MARKERS runs different pairs of dash and marker. A run
    keeps its home colour unless a run before it in the order of ids has it; it then takes the next that is free.
    """
    uses = [0] * COLOURS
    chosen: dict[str, Style] = {}
    waiting = sorted(set(run_ids))
    while waiting:
        least, crowded = min(uses), []
        for run_id in waiting:
            home = home_colour(run_id)
            if uses[home] == least:
                chosen[run_id] = _style(home, uses[home])
                uses[home] += 1
            else:
                crowded.append(run_id)
        waiting = []
        for run_id in crowded:
            free = [(home_colour(run_id) + away) % COLOURS for away in range(COLOURS)]
            colour = next((colour for colour in free if uses[colour] == least), None)
            if colour is None:
                waiting.append(run_id)
                continue
            chosen[run_id] = _style(colour, uses[colour])
            uses[colour] += 1
    return chosen


def _style(colour: int, uses: int) -> Style:
    slot = colour + COLOURS * uses
    dash, row = slot % DASHES, slot // DASHES
    return Style(colour, dash, (row + dash) % MARKERS)


def letters(count: int) -> list[str]:
    """A to Z, then AA, AB and so on: what stands at the end of a run's lines."""
    return [_letters(number) for number in range(count)]


def _letters(number: int) -> str:
    rest, last = divmod(number, 26)
    return (_letters(rest - 1) if rest else "") + chr(ord("A") + last)
