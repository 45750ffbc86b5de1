"""The cluster as racks of nodes of slots, coloured by the team that holds them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from platform_core.cluster.health import NodeState
from platform_core.node.description import Telemetry
from webapp.accounts.permissions import Actor, may
from webapp.jobs import queries as jobs
from webapp.nodes import queries
from webapp.nodes.queries import NodeSummary, SlotUse

_TEAM_KEYS = "abcd"
_OTHERS = "e"
_UNAVAILABLE = "x"
_FREE = ""

Holder = tuple[str, str, str]  # job id, job name, team


@dataclass(frozen=True, slots=True)
class Cell:
    key: str  # the colour: of a team, free or not available
    title: str


@dataclass(frozen=True, slots=True)
class MapNode:
    id: str
    name: str
    state: str
    note: str  # "89 %", "idle", "lost"
    slots: list[Cell]


@dataclass(frozen=True, slots=True)
class Rack:
    name: str
    note: str  # "3 free"
    nodes: list[MapNode]


@dataclass(frozen=True, slots=True)
class LegendLine:
    key: str
    name: str
    slots: int


@dataclass(frozen=True, slots=True)
class ClusterMap:
    racks: list[Rack]
    legend: list[LegendLine]
    nodes: Sequence[NodeSummary]
    slots: int
    held: int


def build(actor: Actor) -> ClusterMap:
    """Names of other teams' jobs are left out."""
    nodes = queries.summaries()
    node_ids = [node.id for node in nodes]
    slots = queries.slots(node_ids)
    telemetry = queries.telemetry(node_ids)
    holders = jobs.holders()
    use: Counter[str] = Counter(
        holders[slot.attempt_id][2] for uses in slots.values() for slot in uses if slot.attempt_id in holders
    )
    keys = {
        team: _TEAM_KEYS[index] if index < len(_TEAM_KEYS) else _OTHERS
        for index, (team, _) in enumerate(use.most_common())
    }
    cells_by_key: Counter[str] = Counter()
    racks: dict[str, list[MapNode]] = defaultdict(list)
    for node in nodes:
        cells = [_cell(slot, node, keys, holders, actor) for slot in slots.get(node.id, ())]
        cells_by_key.update(cell.key for cell in cells)
        note = _note(node, telemetry.get(node.id), cells)
        racks[node.rack].append(MapNode(node.id, node.hostname, str(node.state), note, cells))
    return ClusterMap(
        racks=[Rack(rack, _rack_note(members), members) for rack, members in sorted(racks.items())],
        legend=_legend(cells_by_key, keys),
        nodes=nodes,
        slots=sum(len(uses) for uses in slots.values()),
        held=sum(use.values()),
    )


def _cell(
    slot: SlotUse, node: NodeSummary, keys: Mapping[str, str], holders: Mapping[str, Holder], actor: Actor
) -> Cell:
    if node.state is NodeState.LOST:
        return Cell(_UNAVAILABLE, f"slot {slot.index}: its node is lost")
    if slot.attempt_id not in holders:
        if node.state is not NodeState.READY:
            return Cell(_UNAVAILABLE, f"slot {slot.index}: its node is {node.state}")
        return Cell(_FREE, f"slot {slot.index}: free")
    _, name, team = holders[slot.attempt_id]
    shown = f"{name} ({team})" if may(actor, "job.view", team) else "a job of another team"
    return Cell(keys[team], f"slot {slot.index}: {shown}")


def _note(node: NodeSummary, telemetry: Telemetry | None, cells: Sequence[Cell]) -> str:
    if node.state is not NodeState.READY:
        return str(node.state)
    if not any(cell.key for cell in cells):
        return "idle"
    measured = telemetry.slots if telemetry else ()
    values = [slot.utilisation for slot in measured if slot.utilisation is not None]
    return f"{100 * sum(values) / len(values):.0f} %" if values else "busy"


def _rack_note(nodes: Sequence[MapNode]) -> str:
    return f"{sum(cell.key == _FREE for node in nodes for cell in node.slots)} free"


def _legend(cells: Counter[str], keys: Mapping[str, str]) -> list[LegendLine]:
    """What the colours mean and how many slots have each: a slot of a node that takes no work is not free."""
    names = {key: team for team, key in keys.items() if key != _OTHERS}
    names |= {_OTHERS: "other teams", _FREE: "free", _UNAVAILABLE: "not available"}
    always = {*names} - {_OTHERS, _UNAVAILABLE}
    return [LegendLine(key, name, cells[key]) for key, name in names.items() if cells[key] or key in always]
