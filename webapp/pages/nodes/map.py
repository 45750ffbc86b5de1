"""The cluster as a map: block, rack and node, what is free there, and how far it is in pieces."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from platform_core.cluster.health import NodeState
from platform_core.cluster.snapshot import NodeView
from platform_core.jobs.constraints import SPOT
from platform_core.scheduling.metrics.fragmentation import Fragmentation, measured
from platform_core.scheduling.wording import listed
from platform_core.units import plural
from webapp.accounts.permissions import require
from webapp.accounts.queries import actor_of
from webapp.base.identity import now_ms
from webapp.nodes import queries
from webapp.pages import fragments
from webapp.pages.figures import Figure
from webapp.pages.queue.panels import KeptPlace, kept_places
from webapp.pages.wording import slot_noun

ORDERS = {"place": "By place", "fragmented": "Most fragmented first"}
EIGHTHS = 8  # a cell is filled in so many steps


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the address says of the view."""

    gpu_type: str
    block: str | None
    order: str


@dataclass(frozen=True, slots=True)
class MapPage:
    """Fragment: map. Query: gpu_type, within (a block), order (place, fragmented)."""

    chosen: Chosen
    types: list[str]
    orders: dict[str, str]
    any: bool  # whether any node has joined
    headline: str  # "1,204 of 10,000 GPUs free"
    sentence: str  # "on 1,250 nodes in 80 racks of 10 blocks"
    figures: list[Figure]
    blocks: list[dict[str, Any]]  # of the whole cluster: see _place
    kept: list[dict[str, Any]]  # reservations among the nodes shown
    map: list[dict[str, Any]]  # the chosen blocks with their racks and cells


@login_required
@require_safe
def cluster_map(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    require(actor, "node.view")
    everything = queries.snapshot_nodes()
    chosen = Chosen(
        request.GET.get("gpu_type", ""),
        request.GET.get("within"),
        request.GET.get("order", "") if request.GET.get("order", "") in ORDERS else "place",
    )
    nodes = [node for node in everything if chosen.gpu_type in ("", node.gpu_type)]
    shown = [node for node in nodes if chosen.block in (None, node.block)]
    now = now_ms()
    places = kept_places(actor)
    page = MapPage(
        chosen=chosen,
        types=sorted({node.gpu_type for node in everything}),
        orders=ORDERS,
        any=bool(everything),
        headline=_headline(shown),
        sentence=_sentence(shown),
        figures=_figures(shown, now) if shown else [],
        blocks=_summaries(nodes, chosen.order, now),
        kept=_kept(places, shown),
        map=_blocks(shown, chosen.order, _Marks(now, _said_of_places(places))),
    )
    return fragments.render(request, "nodes/map.html", page)


def word(node: NodeView, now: int) -> str:
    """What sets the node apart from one that simply takes work; "" where nothing does."""
    if node.state in (NodeState.LOST, NodeState.SUSPECT):
        return str(node.state)
    if any(begin_ms <= now < end_ms for begin_ms, end_ms in node.windows):
        return "maintenance"
    if node.state is not NodeState.READY:
        return str(node.state)
    if node.out_of_service:
        return "out of service"
    if node.disk_full:
        return "disk full"
    if (SPOT, "yes") in node.labels:
        return "spot"
    return "booked" if node.windows else "tainted" if node.taints else ""


class _Marks(NamedTuple):
    """What is told of a node beside what it says itself."""

    now: int
    kept: Mapping[str, str]  # node → for whom, in words


def _said_of_places(places: Sequence[KeptPlace]) -> dict[str, str]:
    """Node → "large-gang, which should start in about 20 min"; of several the first in the queue first."""
    reservations: dict[str, list[str]] = defaultdict(list)
    for place in places:
        starts = f", which should start {place.starts}" if place.starts else ""
        for node in place.nodes:
            reservations[node].append(f"{place.name}{starts}")
    return {node: ", then for ".join(each) for node, each in reservations.items()}


def _kept(places: Sequence[KeptPlace], nodes: Sequence[NodeView]) -> list[dict[str, Any]]:
    """Whose places these nodes have a part in."""
    names = {node.id: node.hostname for node in nodes}
    return [
        {
            "id": place.job_id,
            "name": place.name,
            "team": place.team,
            "gpus": place.gpus,
            "gpu_type": place.gpu_type,
            "starts": place.starts,
            "on": listed(here),
            "nodes": len(here),
            "elsewhere": len(place.nodes) - len(here),
        }
        for place in places
        if (here := [names[node] for node in place.nodes if node in names])
    ]


def _headline(nodes: Sequence[NodeView]) -> str:
    noun = slot_noun(node.gpu_type for node in nodes)
    free, slots = measured("", nodes).free, sum(node.slots for node in nodes)
    return f"{free:,} of {plural(slots, noun)} free" if nodes else "No nodes"


def _sentence(nodes: Sequence[NodeView]) -> str:
    if not nodes:
        return ""
    racks = len({(node.block, node.rack) for node in nodes})
    blocks = len({node.block for node in nodes})
    within = f" of {plural(blocks, 'block')}" if blocks > 1 else ""
    return f"on {plural(len(nodes), 'node')} in {plural(racks, 'rack')}{within}"


def _figures(nodes: Sequence[NodeView], now: int) -> list[Figure]:
    free = measured("", nodes)
    noun = slot_noun(node.gpu_type for node in nodes)
    away = Counter(word(node, now) for node in nodes if not node.takes_work)
    return [
        Figure("Free nodes", f"{free.whole_nodes:,}", _largest(nodes, noun)),
        Figure(
            "Fragmentation",
            f"{100 * free.share:.0f} %" if free.free else "–",
            f"{plural(free.broken, f'free {noun}')} on nodes partly in use{_off_island(free, nodes)}",
        ),
        Figure(
            "Not available",
            str(sum(away.values())),
            _counted(away) or "every node is ready",
            "bad" if away[NodeState.LOST] else "wait" if away else "",
        ),
    ]


def _off_island(free: Fragmentation, nodes: Sequence[NodeView]) -> str:
    return f", {free.off_island} in islands partly in use" if any(node.islands for node in nodes) else ""


def _largest(nodes: Sequence[NodeView], noun: str) -> str:
    """The largest gang that whole nodes of one rack could take."""
    by_rack = Counter[tuple[str, str, str]]()
    for node in nodes:
        if node.takes_work and len(node.free_slots) == node.slots:
            by_rack[node.block, node.rack, node.gpu_type] += node.slots
    (place, slots), *_ = by_rack.most_common(1) or [(("", "", ""), 0)]
    return (
        f"largest rack: {plural(slots, noun)} in {place[1]}" if slots else "a gang of whole nodes has to wait"
    )


def _counted(words: Counter[str]) -> str:
    """ "2 draining, 1 lost" """
    return ", ".join(
        f"{count} {name}" for name, count in sorted(words.items(), key=lambda each: (-each[1], each[0]))
    )


def _grouped(nodes: Sequence[NodeView], level: str) -> dict[str, list[NodeView]]:
    groups: dict[str, list[NodeView]] = defaultdict(list)
    for node in nodes:
        groups[getattr(node, level)].append(node)
    return dict(sorted(groups.items()))


def _place(name: str, nodes: Sequence[NodeView], now: int) -> dict[str, Any]:
    """A block or a rack in numbers."""
    free = measured(name, nodes)
    return {
        "name": name,
        "slots": sum(node.slots for node in nodes),
        "nodes": len(nodes),
        "free": free.free,
        "whole": free.whole_nodes,
        "percent": 100 * free.share if free.free else None,
        "words": _counted(Counter(said for node in nodes if (said := word(node, now)))),
    }


def _ordered(places: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    if order == "fragmented":
        places.sort(key=lambda place: (-(place["percent"] or 0), -place["free"], place["name"]))
    return places


def _summaries(nodes: Sequence[NodeView], order: str, now: int) -> list[dict[str, Any]]:
    blocks = _grouped(nodes, "block")
    return _ordered([_place(name, members, now) for name, members in blocks.items()], order)


def _blocks(nodes: Sequence[NodeView], order: str, marks: _Marks) -> list[dict[str, Any]]:
    blocks = []
    for block, members in _grouped(nodes, "block").items():
        racks = [
            {**_place(rack, of_rack, marks.now), "cells": [_cell(node, marks) for node in _by_name(of_rack)]}
            for rack, of_rack in _grouped(members, "rack").items()
        ]
        blocks.append({**_place(block, members, marks.now), "racks": _ordered(racks, order)})
    return _ordered(blocks, order)


def _by_name(nodes: Sequence[NodeView]) -> list[NodeView]:
    return sorted(nodes, key=lambda node: (len(node.hostname), node.hostname, node.id))


def _cell(node: NodeView, marks: _Marks) -> dict[str, Any]:
    """`text` is what is free; `said` what a reader hears of the node, and reads when it is pointed at."""
    free, apart = len(node.free_slots), word(node, marks.now)
    kept = marks.kept.get(node.id, "") if node.takes_work else ""
    used = node.slots - free
    filled = -(-used * EIGHTHS // node.slots) if node.slots else EIGHTHS
    text = _by_island(node) if node.takes_work else ""
    said = f"{free} of {node.slots} free on {node.hostname}"
    if not node.takes_work:
        said = f"{apart}: {node.hostname}, {used} of {node.slots} in use"
    elif apart or text != str(free):
        said = f"{text} {apart}: {said}" if apart else f"{text}: {said}"
    if kept:
        said = f"{said}; kept for {kept}"
    kind = f"{_kind(node, apart, filled)}{' kept' if kept else ''}"
    return {"id": node.id, "text": text, "word": "kept" if kept else apart, "kind": kind, "said": said}


def _by_island(node: NodeView) -> str:
    """What is free, island by island where the node has some: "4+1"."""
    free = set(node.free_slots)
    if not free or not node.islands:
        return str(len(free))
    return "+".join(str(len(free.intersection(island))) for island in node.islands)


def _kind(node: NodeView, apart: str, filled: int) -> str:
    """The classes of a cell: how full it is, or what it is instead of taking work."""
    if not node.takes_work:
        return f"away {apart}"
    return f"u{filled} apart" if apart else f"u{filled}"
