"""Reads of nodes and slots for the apps above: values, in a fixed small number of queries."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from django.db.models import Count, Q

from platform_core.checkpointing.habit import Losses
from platform_core.cluster.health import NodeState
from platform_core.cluster.invariants import SlotHeld
from platform_core.cluster.snapshot import NodeView
from platform_core.cluster.topology import islands
from platform_core.distribution.planning.routes import Place
from platform_core.errors import TrainmasterError
from platform_core.node.description import Telemetry
from webapp.base.identity import now_ms
from webapp.events import queries as events
from webapp.nodes import liveness, mapping
from webapp.nodes.join_command import join_command as join_command
from webapp.nodes.mapping import is_spot as is_spot
from webapp.nodes.models import BootstrapToken, MaintenanceWindow, Node, Slot
from webapp.nodes.speed import cluster_at as cluster_at
from webapp.nodes.speed import cluster_of as cluster_of
from webapp.nodes.speed import node_of_type as node_of_type


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where the ranks of a gang meet when this is its first node."""

    address: str
    port_low: int
    port_high: int


@dataclass(frozen=True, slots=True)
class NodeSummary:
    id: str
    hostname: str
    rack: str
    gpu_type: str
    state: NodeState
    address: str
    transfer_port: int
    disk_bytes: int
    revoked: bool

    @property
    def transfer_address(self) -> str:
        return f"{self.address}:{self.transfer_port}"


@dataclass(frozen=True, slots=True)
class SlotUse:
    """One slot, who holds it, and what its hardware said last."""

    node_id: str
    index: int
    name: str
    memory_bytes: int
    attempt_id: str  # '' when it is free
    island: int = 0  # slots of an equal number are linked; 0: with no other
    out_of_service: str = ""  # why


@dataclass(frozen=True, slots=True)
class Capacity:
    gpu_type: str
    slots: int
    free: int  # on nodes that take work
    nodes: int


@dataclass(frozen=True, slots=True)
class Window:
    """Booked maintenance that is not over."""

    id: int
    nodes: tuple[tuple[str, str], ...]  # (id, hostname)
    begin_ms: int
    end_ms: int
    reason: str
    booked_by: str
    begun: bool

    @property
    def lasts_ms(self) -> int:
        return self.end_ms - self.begin_ms


@dataclass(frozen=True, slots=True)
class BootstrapTokenView:
    id: int
    name: str
    created_ms: int
    expires_ms: int


def snapshot_nodes() -> tuple[NodeView, ...]:
    """Every node that may be wanted for work, for the scheduler: three queries, and one of Redis."""
    total: dict[str, int] = defaultdict(int)
    free: dict[str, list[int]] = defaultdict(list)
    numbered: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for node_id, index, attempt_id, island, out in Slot.objects.order_by("index").values_list(
        "node_id", "index", "attempt_id", "island", "out_of_service"
    ):
        total[node_id] += 1
        numbered[node_id].append((index, island))
        if attempt_id is None and not out:
            free[node_id].append(index)
    windows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    ahead = MaintenanceWindow.objects.filter(over=False).order_by("begin_ms", "end_ms", "id")
    for nodes_of_it, begin_ms, end_ms in ahead.values_list("nodes", "begin_ms", "end_ms"):
        for node_id in nodes_of_it:
            windows[node_id].append((begin_ms, end_ms))
    nodes = Node.objects.filter(revoked_ms=None).order_by("id")
    full = liveness.full_disks()
    return tuple(
        mapping.view(
            node,
            total[node.id],
            tuple(free[node.id]),
            tuple(windows[node.id]),
            islands(numbered[node.id]),
            node.id in full,
        )
        for node in nodes
    )


def wanted_revisions(node_ids: Collection[str]) -> dict[str, int]:
    """By node the revision of what is wanted of it. Raises for one that is unknown, lost or was revoked."""
    rows = {
        row.id: row
        for row in Node.objects.filter(id__in=node_ids).only(
            "hostname", "wanted_revision", "revoked_ms", "state"
        )
    }
    for node_id in node_ids:
        if (node := rows.get(node_id)) is None:
            raise TrainmasterError("node_unknown", node=node_id)
        if node.revoked_ms is not None:
            raise TrainmasterError("credential_revoked", node=node.hostname)
        if node.state == NodeState.LOST:
            raise TrainmasterError("node_lost", node=node.hostname)
    return {node_id: node.wanted_revision for node_id, node in rows.items()}


def revisions(node_ids: Sequence[str]) -> dict[str, tuple[int, bool]]:
    """node → (wanted revision, whether it was revoked), for the gateway's look at all its sessions."""
    rows = Node.objects.filter(id__in=node_ids).values_list("id", "wanted_revision", "revoked_ms")
    return {node_id: (revision, revoked_ms is not None) for node_id, revision, revoked_ms in rows}


def rendezvous(node_ids: Iterable[str]) -> dict[str, Rendezvous]:
    rows = Node.objects.filter(id__in=list(node_ids))
    fields = ("id", "address", "rendezvous_port_low", "rendezvous_port_high")
    return {node_id: Rendezvous(*row) for node_id, *row in rows.values_list(*fields)}


def count() -> int:
    return Node.objects.filter(revoked_ms=None).count()


def summaries(node_ids: Iterable[str] | None = None) -> tuple[NodeSummary, ...]:
    """These nodes, or all that were not revoked, by hostname."""
    rows = Node.objects.order_by("hostname", "id")
    rows = rows.filter(revoked_ms=None) if node_ids is None else rows.filter(id__in=list(node_ids))
    return tuple(_summary(row) for row in rows)


def find(names: Iterable[str]) -> dict[str, NodeSummary]:
    """Nodes by id or by hostname, as people write them; what is not in the answer is unknown or ambiguous."""
    wanted = set(names)
    rows = Node.objects.filter(Q(id__in=wanted) | Q(hostname__in=wanted), revoked_ms=None)
    by_name: dict[str, list[NodeSummary]] = defaultdict(list)
    for row in rows:
        for name in {row.id, row.hostname} & wanted:
            by_name[name].append(_summary(row))
    return {name: found[0] for name, found in by_name.items() if len(found) == 1}


def id_of(name: str) -> str:
    """The id of the node with this id or hostname. Raises not_found, also when several nodes have the hostname."""
    if Node.objects.filter(id=name).exists():
        return name
    nodes = find([name])
    if name not in nodes:
        raise TrainmasterError("not_found", what=f"node {name}")
    return nodes[name].id


def places(names: Iterable[str]) -> tuple[Place, ...]:
    """Where these nodes (ids or hostnames) stand; none named means every ready one with an agent. Raises
    node_unknown."""
    wanted = list(dict.fromkeys(names))
    if not wanted:
        ready = Node.objects.filter(state=NodeState.READY, revoked_ms=None, transfer_port__gt=0)
        rows = ready.order_by("id")
        return tuple(Place(*row) for row in rows.values_list("id", "rack", "block"))
    node = find(wanted)
    for name in wanted:
        if name not in node:
            raise TrainmasterError("node_unknown", node=name)
    where = {row[0]: Place(*row) for row in Node.objects.values_list("id", "rack", "block")}
    return tuple(where[node_id] for node_id in dict.fromkeys(node[name].id for name in wanted))


def transfer_caps(node_ids: Iterable[str]) -> dict[str, tuple[int, int]]:
    """node → bytes per second of models that it may take in and give out, 0 is no cap; of those that have one."""
    capped = Node.objects.exclude(receive_cap=0, send_cap=0).filter(id__in=list(node_ids))
    return {
        node: (takes, gives) for node, takes, gives in capped.values_list("id", "receive_cap", "send_cap")
    }


def without_agent(node_ids: Iterable[str]) -> frozenset[str]:
    """Those of these nodes from which nobody can fetch anything."""
    rows = Node.objects.filter(id__in=list(node_ids), transfer_port=0)
    return frozenset(rows.values_list("id", flat=True))


def that_hold_ready(node_ids: Iterable[str]) -> frozenset[str]:
    """Those whose agent takes orders to have files ready that no attempt needs yet."""
    rows = Node.objects.filter(id__in=list(node_ids), holds_ready_files=True)
    return frozenset(rows.values_list("id", flat=True))


def standing(node_ids: Iterable[str]) -> tuple[Place, ...]:
    """Where these nodes stand, by id."""
    rows = Node.objects.filter(id__in=list(node_ids)).order_by("id")
    return tuple(Place(*row) for row in rows.values_list("id", "rack", "block"))


def transfer_addresses(node_ids: Iterable[str]) -> dict[str, str]:
    """node → host:port where other nodes fetch pieces from it."""
    rows = Node.objects.filter(id__in=list(node_ids), revoked_ms=None).values_list(
        "id", "address", "transfer_port"
    )
    return {node_id: f"{address}:{port}" for node_id, address, port in rows}


def silent() -> dict[str, str]:
    """Nodes of which nothing is heard, by id, with since when in words."""
    rows = Node.objects.filter(state__in=[NodeState.SUSPECT, NodeState.LOST])
    return dict(rows.values_list("id", "state_reason"))


def lost(node_ids: Iterable[str]) -> dict[str, int]:
    """Those of these nodes that are lost, by id, with since when."""
    rows = Node.objects.filter(id__in=list(node_ids), state=NodeState.LOST)
    return dict(rows.values_list("id", "state_since_ms"))


def hostname(node_id: str) -> str:
    return hostnames([node_id]).get(node_id, node_id)


def hostnames(node_ids: Iterable[str]) -> dict[str, str]:
    return dict(Node.objects.filter(id__in=list(node_ids)).values_list("id", "hostname"))


def slots(node_ids: Iterable[str] | None = None) -> dict[str, tuple[SlotUse, ...]]:
    """node → its slots by index."""
    rows = Slot.objects.order_by("node_id", "index")
    if node_ids is not None:
        rows = rows.filter(node__in=list(node_ids))
    found: dict[str, list[SlotUse]] = defaultdict(list)
    for node_id, index, name, memory, attempt, island, out in rows.values_list(
        "node_id", "index", "name", "memory_bytes", "attempt_id", "island", "out_of_service"
    ):
        found[node_id].append(SlotUse(node_id, index, name, memory, attempt or "", island, out))
    return {node_id: tuple(uses) for node_id, uses in found.items()}


def telemetry(node_ids: Sequence[str]) -> dict[str, Telemetry]:
    """node → what its last heartbeat said; a node that was not heard for two minutes is not in it."""
    return liveness.telemetry(node_ids)


def holders(manifests: Collection[str]) -> dict[str, tuple[str, ...]]:
    """Dataset's manifest → the nodes that hold it."""
    return liveness.holders(manifests, now_ms())


def last_seen(nodes: dict[str, int]) -> dict[str, int]:
    """node → when it was last heard, from Redis or from the durable copies in `nodes`, whichever is newer."""
    heard = liveness.seen(list(nodes))
    return {node_id: max(durable_ms, heard.get(node_id, 0)) for node_id, durable_ms in nodes.items()}


def slots_by_type() -> dict[str, int]:
    """GPU type → slots on nodes that take work."""
    rows = Slot.objects.filter(node__state=NodeState.READY, node__revoked_ms=None)
    return dict(rows.order_by().values_list("node__gpu_type").annotate(slots=Count("id")))


def registered_slots() -> dict[str, int]:
    """GPU type → slots of all nodes that belong to the cluster, draining and lost ones too."""
    return {gpu_type: each.slots for gpu_type, each in capacity().items()}


def capacity() -> dict[str, Capacity]:
    """gpu type → how much of it there is, for the job form and "cannot ever fit"."""
    takes_work = Q(node__state=NodeState.READY, node__out_of_service="", attempt_id=None, out_of_service="")
    rows = (
        Slot.objects.filter(node__revoked_ms=None)
        .values("node__gpu_type")
        .annotate(slots=Count("id"), free=Count("id", filter=takes_work), nodes=Count("node", distinct=True))
        .order_by("node__gpu_type")
    )
    return {
        row["node__gpu_type"]: Capacity(row["node__gpu_type"], row["slots"], row["free"], row["nodes"])
        for row in rows
    }


def books() -> tuple[SlotHeld, ...]:
    """Who holds which slot, for the invariants of the core."""
    rows = Slot.objects.values_list("node_id", "index", "attempt_id")
    return tuple(SlotHeld(node, index, attempt or "") for node, index, attempt in rows)


def losses(gpu_type: str, from_ms: int, now_ms: int) -> Losses:
    """Without nodes that had been told to drain, for their jobs could save. Only the last time away is taken off."""
    rows = Node.objects.filter(gpu_type=gpu_type)
    there = {
        node: max(0, _there_until(state, since_ms, revoked_ms, now_ms) - max(joined_ms, from_ms))
        for node, state, since_ms, revoked_ms, joined_ms in rows.values_list(
            "id", "state", "state_since_ms", "revoked_ms", "joined_ms"
        )
    }
    lost = [
        node for node, data in events.since("NodeLost", "node", from_ms) if not data.get("drain_requested")
    ]
    return Losses(sum(node in there for node in lost), sum(there.values()))


def _there_until(state: str, since_ms: int, revoked_ms: int | None, now_ms: int) -> int:
    return min(revoked_ms or now_ms, since_ms if state == NodeState.LOST else now_ms)


def maintenance(node_id: str = "") -> tuple[Window, ...]:
    """What is booked for all nodes, or for one; the next first."""
    rows = list(MaintenanceWindow.objects.filter(over=False).order_by("begin_ms", "id"))
    rows = [row for row in rows if not node_id or node_id in row.nodes]
    names = hostnames({node for row in rows for node in row.nodes})
    return tuple(
        Window(
            row.pk, tuple((node, names.get(node, node)) for node in row.nodes), row.begin_ms, row.end_ms, row.reason,
            row.booked_by, row.begun,
        )
        for row in rows
    )  # fmt: skip


def bootstrap_tokens() -> tuple[BootstrapTokenView, ...]:
    rows = BootstrapToken.objects.filter(revoked_ms=None).order_by("-created_ms")
    return tuple(
        BootstrapTokenView(*row) for row in rows.values_list("id", "name", "created_ms", "expires_ms")
    )


def _summary(row: Node) -> NodeSummary:
    return NodeSummary(
        id=row.id,
        hostname=row.hostname,
        rack=row.rack,
        gpu_type=row.gpu_type,
        state=NodeState(row.state),
        address=row.address,
        transfer_port=row.transfer_port,
        disk_bytes=row.disk_bytes,
        revoked=row.revoked_ms is not None,
    )


_NODE_ID = re.compile(r"node-[0-9a-hjkmnp-tv-z]{16}")


def with_hostnames(text: str) -> str:
    """A sentence for people: its node ids replaced by hostnames."""
    return all_with_hostnames([text])[0]


def all_with_hostnames(texts: Sequence[str]) -> list[str]:
    ids = {node_id for text in texts for node_id in _NODE_ID.findall(text)}
    names = hostnames(ids) if ids else {}
    return [_NODE_ID.sub(lambda found: names.get(found[0], found[0]), text) for text in texts]
