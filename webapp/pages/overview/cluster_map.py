"""The cluster as racks of nodes of slots, coloured by who holds them."""

from collections import Counter, defaultdict
from typing import Any

from platform_core.cluster.health import NodeState
from platform_core.node.description import Telemetry
from webapp.accounts.permissions import Actor, may
from webapp.jobs import queries as job_queries
from webapp.nodes import queries as clusters
from webapp.nodes.queries import NodeSummary, SlotUse

_KEYS = "abcd"
_OTHERS = "e"
_UNAVAILABLE = "x"


def build(actor: Actor) -> dict[str, Any]:
    """racks, legend and the counts for the headline. Names of other teams' jobs are not told."""
    nodes = clusters.summaries()
    slots = clusters.slots([node.id for node in nodes])
    told = clusters.telemetry([node.id for node in nodes])
    holders = job_queries.holders()
    use: Counter[str] = Counter(
        holders[slot.attempt_id][2] for uses in slots.values() for slot in uses if slot.attempt_id in holders
    )
    keys = {
        team: _KEYS[index] if index < len(_KEYS) else _OTHERS
        for index, (team, _) in enumerate(use.most_common())
    }
    cells_by_key: Counter[str] = Counter()
    racks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for node in nodes:
        cells = [_cell(slot, node, keys, holders, actor) for slot in slots.get(node.id, ())]
        cells_by_key.update(cell["key"] for cell in cells)
        racks[node.rack].append(
            {
                "id": node.id,
                "name": node.hostname,
                "state": node.state,
                "note": _note(node, told.get(node.id), cells),
                "slots": cells,
            }
        )
    return {
        "racks": [
            {"name": rack, "note": _rack_note(members), "nodes": members}
            for rack, members in sorted(racks.items())
        ],
        "legend": _legend(cells_by_key, keys),
        "nodes": nodes,
        "slots": sum(len(uses) for uses in slots.values()),
        "held": sum(use.values()),
    }


def _cell(
    slot: SlotUse,
    node: NodeSummary,
    keys: dict[str, str],
    holders: dict[str, tuple[str, str, str]],
    actor: Actor,
) -> dict[str, str]:
    if node.state is NodeState.LOST:
        return {"key": _UNAVAILABLE, "title": f"slot {slot.index}: its node is lost"}
    if slot.attempt_id not in holders:
        if node.state is not NodeState.READY:
            return {"key": _UNAVAILABLE, "title": f"slot {slot.index}: its node is {node.state}"}
        return {"key": "", "title": f"slot {slot.index}: free"}
    _, name, team = holders[slot.attempt_id]
    shown = f"{name} ({team})" if may(actor, "job.view", team) else "a job of another team"
    return {"key": keys[team], "title": f"slot {slot.index}: {shown}"}


def _note(node: NodeSummary, told: Telemetry | None, cells: list[dict[str, str]]) -> str:
    if node.state is not NodeState.READY:
        return str(node.state)
    if not any(cell["key"] for cell in cells):
        return "idle"
    values = [slot.utilisation for slot in told.slots if slot.utilisation is not None] if told else []
    return f"{100 * sum(values) / len(values):.0f} %" if values else "busy"


def _rack_note(nodes: list[dict[str, Any]]) -> str:
    free = sum(not slot["key"] for node in nodes for slot in node["slots"])
    return f"{free} free"


def _legend(cells: Counter[str], keys: dict[str, str]) -> list[dict[str, Any]]:
    """What the colours mean and how many slots have each: a slot of a node that takes no work is not free."""
    names = {key: team for team, key in keys.items() if key != _OTHERS}
    names |= {_OTHERS: "other teams", "": "free", _UNAVAILABLE: "not available"}
    always = {*names} - {_OTHERS, _UNAVAILABLE}
    return [
        {"key": key, "name": name, "slots": cells[key]}
        for key, name in names.items()
        if cells[key] or key in always
    ]
