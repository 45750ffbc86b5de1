"""The way of the bytes as a drawing: the store, below it the racks with a cell for each node, and an arc from each to
those that it feeds. Of more racks than fit on a screen, blocks are drawn, or the last ones as one."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from math import sqrt
from typing import Any

from platform_core.units import format_bytes
from webapp.deployments.models import Worker
from webapp.pages.deployments.movement import percent_here

MOST_ROWS = 48
MOST_CELLS = 2000  # one a node; of more nodes each row is a few stretches of one state
SHORT_NAME = 8  # letters that have room beside the bar
WIDTH = 132  # of the arcs, in pixels
# Up to so many rows: their height and how thick an arc is at most, in pixels.
_SIZES: tuple[tuple[int, str, int, float], ...] = (
    (12, "tall", 44, 6.0),
    (24, "", 28, 4.0),
    (MOST_ROWS, "low", 22, 2.5),
)
_STORE = ""
_CELLS = {"complete": "have", "receiving": "now", "failed": "bad"}

Groups = Mapping[str, Sequence[Worker]]


def groups(workers: Sequence[Worker]) -> Groups:
    """Name → its nodes: racks, as long as they are not too many."""
    racks = _by(workers, [worker.node.rack or "no rack" for worker in workers])
    if len(racks) <= MOST_ROWS:
        return racks
    blocks = _by(workers, [worker.node.block or "no block" for worker in workers])
    if 1 < len(blocks) <= MOST_ROWS:
        return blocks
    shown = list(racks)[: MOST_ROWS - 1]
    rest = [worker for name, mine in racks.items() if name not in shown for worker in mine]
    return {name: racks[name] for name in shown} | {f"{len(racks) - len(shown)} more racks": rest}


def _by(workers: Sequence[Worker], names: Sequence[str]) -> Groups:
    by_name: dict[str, list[Worker]] = {name: [] for name in sorted(set(names))}
    for name, worker in zip(names, workers, strict=True):
        by_name[name].append(worker)
    return by_name


def feeds(grouped: Groups) -> dict[tuple[str, str], int]:
    """(from, to) → bytes so far, from group to group and from the store; also where none has come yet. Which lane has
    brought how much is known, and so, by the plan, from whom."""
    group_of = {worker.node_id: name for name, mine in grouped.items() for worker in mine}
    carried: dict[tuple[str, str], int] = defaultdict(int)
    for name, mine in grouped.items():
        for worker in mine:
            for lane, held in zip(worker.lanes, lanes_held(worker), strict=True):
                source = group_of.get(lane[0], _STORE) if lane else _STORE
                if source != name:
                    carried[source, name] += held if source else 0
            if worker.store_bytes:
                carried[_STORE, name] += worker.store_bytes
    return dict(carried)


def lanes_held(worker: Worker) -> Sequence[int]:
    """Bytes by lane; an agent that is done tells of them no more."""
    if len(worker.held) == len(worker.lanes) and any(worker.held):
        return list(worker.held)
    return [worker.bytes_done // len(worker.lanes)] * len(worker.lanes) if worker.lanes else []


def rows(grouped: Groups) -> list[dict[str, Any]]:
    """What each has, in numbers and in words."""
    return [_row(name, mine) for name, mine in grouped.items()]


def _row(name: str, mine: Sequence[Worker]) -> dict[str, Any]:
    size = mine[0].bytes_total
    counts = Counter(worker.state for worker in mine)
    rate = int(sum(worker.rate_in for worker in mine if worker.state == "receiving"))
    return {
        "name": name,
        "nodes": len(mine),
        "ready": f"{counts['complete']} of {len(mine)}",
        "percent": f"{percent_here(mine)} %",
        "tone": "ok" if counts["complete"] == len(mine) else "",
        "rate": f"{format_bytes(rate)}/s" if rate else "–",
        "from_store": sum(worker.store_bytes for worker in mine) / size if size else 0.0,
        "label": f"{name}: " + ", ".join(f"{count} {state}" for state, count in sorted(counts.items())),
    }


def drawing(workers: Sequence[Worker]) -> dict[str, Any]:
    grouped = groups(workers)
    carried = feeds(grouped)
    order = list(grouped)
    size, height, thick = next((name, px, wide) for most, name, px, wide in _SIZES if len(order) <= most)
    places = {name: row * height for row, name in enumerate((_STORE, *order))}
    lines = {row["name"]: row for row in rows(grouped)}
    for name, line in lines.items():
        line["fed_by"] = [_named(source) for source, to in sorted(carried) if to == name]
        line |= _cells(grouped[name], len(workers))
    whole = workers[0].bytes_total if workers else 0
    return {
        "rows": [lines[name] for name in order],
        "copies": f"{sum(worker.store_bytes for worker in workers) / whole if whole else 0:.2f}",
        "arcs": _arcs(carried, places, height, thick),
        "width": WIDTH,
        "height": height * len(places),
        "size": size,
        "named": max(map(len, order), default=0) > SHORT_NAME,
        "label": _in_words(order, carried),
    }


def _arcs(
    carried: Mapping[tuple[str, str], int], places: Mapping[str, int], height: int, thick: float
) -> list[dict[str, Any]]:
    """The weightiest last, so that they lie above."""
    most = max(carried.values(), default=0) or 1
    inflow: dict[str, int] = defaultdict(int)
    for (_, to), moved in carried.items():
        inflow[to] = max(inflow[to], moved)
    arcs = []
    for (source, to), moved in sorted(carried.items(), key=lambda each: each[1]):
        begin = places[source] + height * (0.5 if source == _STORE else 0.68)
        end = places[to] + height * 0.32
        depth = 18 + (WIDTH * 1.26 - 28) * sqrt(abs(places[to] - places[source]) / max(places.values()))
        bulge, tip = WIDTH - depth, WIDTH - 8
        kind = "main" if moved and moved == inflow[to] else "side" if moved else "none"
        arcs.append(
            {
                "path": f"M{WIDTH} {begin:.0f}C{bulge:.0f} {begin:.0f} {bulge:.0f} {end:.0f} {tip} {end:.0f}",
                "tip": f"M{tip - 1} {end - 4:.0f}l8 4l-8 4z",
                "weight": f"{1 + (thick - 1) * sqrt(moved / most):.1f}",
                "kind": kind,
                "words": f"{_named(source)} to {to}: {format_bytes(moved) if moved else 'nothing yet'}",
            }
        )
    return arcs


def _named(source: str) -> str:
    return source or "the store"


def _cells(mine: Sequence[Worker], all_nodes: int) -> dict[str, Any]:
    if all_nodes > MOST_CELLS:
        runs: list[tuple[int, int, str]] = []
        for place, worker in enumerate(mine):
            kind = _CELLS.get(worker.state, "")
            if runs and runs[-1][2] == kind:
                runs[-1] = (runs[-1][0], runs[-1][1] + 1, kind)
            else:
                runs.append((place, 1, kind))
        return {"runs": [run for run in runs if run[2]]}
    return {"cells": [_cell(place, worker) for place, worker in enumerate(mine)]}


def _cell(place: int, worker: Worker) -> dict[str, Any]:
    """As high as it is far; whole where it has ended."""
    percent, kind = percent_here([worker]), _CELLS.get(worker.state, "")
    full = percent if kind in ("now", "") else 100
    return {
        "x": place,
        "y": 100 - full,
        "height": full,
        "kind": kind,
        "position": worker.position if kind == "now" else None,
        "words": f"{worker.node.hostname}: {worker.state}" + (f", {percent} %" if kind == "now" else ""),
    }


def _in_words(order: Sequence[str], carried: Mapping[tuple[str, str], int]) -> str:
    """The drawing for those who cannot see it; the table below it has the numbers."""
    fed: dict[str, list[str]] = defaultdict(list)
    for source, to in sorted(carried):
        fed[source].append(to)
    words = [
        f"{_named(source)} feeds {', '.join(fed[source][:6])}" for source in (_STORE, *order) if fed[source]
    ]
    more = f"; and {len(words) - 12} more that feed others" if len(words) > 12 else ""
    return f"{'; '.join(words[:12])}{more}. The table says how much."
