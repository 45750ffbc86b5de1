"""The cluster as racks of nodes of slots, coloured by who holds them."""

from collections import Counter, defaultdict
from typing import Any

from platform_core.cluster.health import NodeState
from webapp.accounts.permissions import Actor, may
from webapp.clusters import queries as clusters
from webapp.clusters.queries import NodeSummary, SlotUse
from webapp.clusters.values import Telemetry
from webapp.jobs import queries as job_queries

_KEYS = "abcd"
_OTHERS = "e"
_AWAY = (NodeState.LOST,)


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
    racks: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for node in nodes:
        cells = [_cell(slot, node, keys, holders, actor) for slot in slots.get(node.id, ())]
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
        "legend": _legend(use, keys, sum(len(uses) for uses in slots.values())),
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
    if node.state in _AWAY:
        return {"key": "x", "title": f"slot {slot.index}: its node is lost"}
    if slot.attempt_id not in holders:
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


def _legend(use: Counter[str], keys: dict[str, str], total: int) -> list[dict[str, Any]]:
    named = [
        {"key": keys[team], "name": team, "slots": slots}
        for team, slots in use.most_common()
        if keys[team] != _OTHERS
    ]
    others = sum(slots for team, slots in use.items() if keys[team] == _OTHERS)
    if others:
        named.append({"key": _OTHERS, "name": "other teams", "slots": others})
    return [*named, {"key": "", "name": "free", "slots": total - sum(use.values())}]
