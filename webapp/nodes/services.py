"""What happens to nodes and their slots. The gateway, the jobs app and operators call these."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from django.db import transaction
from django.db.models import F, Q

from platform_core.cluster.health import DrainRequested, Heartbeat, NodeState, ResumeRequested
from platform_core.errors import TrainmasterError
from platform_core.node.description import NodeDescription, Telemetry
from webapp.accounts.permissions import Actor, require
from webapp.base.identity import new_id, now_ms
from webapp.base.lease import Fence
from webapp.base.rows import update_each
from webapp.events import services as events
from webapp.nodes import agentless, device_health, enrolment, health, liveness, maintenance, silence
from webapp.nodes.certificates import node_authority
from webapp.nodes.device_health import judge_devices, return_to_service
from webapp.nodes.enrolment import create_bootstrap_token, revoke_bootstrap_token
from webapp.nodes.maintenance import book as book_maintenance
from webapp.nodes.maintenance import book_now as book_maintenance_now
from webapp.nodes.maintenance import cancel as cancel_maintenance
from webapp.nodes.maintenance import turn as turn_maintenance
from webapp.nodes.marking import mark, read_labels
from webapp.nodes.models import Node, Slot
from webapp.nodes.notices import give_notice, heard_notice, is_back
from webapp.nodes.values import Registration
from webapp.sockets import services as sockets

__all__ = [
    "assign_slots", "authenticate", "book_maintenance", "book_maintenance_now", "cancel_maintenance",
    "create_bootstrap_token", "drain", "give_notice", "heard_notice", "heartbeat", "hello", "is_lost", "join",
    "judge_devices", "listening", "mark", "node_authority", "note_replaced_session", "read_labels", "readmit",
    "register", "release_slots", "resume", "return_to_service", "revoke", "revoke_bootstrap_token", "sweep",
    "touch", "turn_maintenance", "worker_heard",
]  # fmt: skip


# Enrolment and sessions: called by the gateway


@transaction.atomic
def join(
    bootstrap_token: str, description: NodeDescription, node_id: str = "", earlier_credential: str = ""
) -> tuple[str, str]:
    """A machine becomes a node: its id, and the credential that is shown this once.

    An agent that kept its id comes back as the same node, if its hostname is the same too: a copied disk carries the id
    to another machine. It shows its earlier credential, which ends, or an operator has let it join again.
    """
    enrolment.check_bootstrap_token(bootstrap_token)
    credential, digest = enrolment.new_credential()
    now = now_ms()
    node = enrolment.returning(description.hostname, node_id, earlier_credential)
    kind = "NodeRejoined" if node else "NodeJoined"
    if node is None:
        node = Node(id=new_id("node"), joined_ms=now, state=NodeState.LOST, state_since_ms=now)
        node.state_reason = "it has joined, its agent has not called yet"
    node.credential_digest, node.rejoin_allowed = digest, False
    _describe(node, description)
    node.save()
    _keep_slots(node, description)
    events.record(
        kind,
        f"node:{node.id}",
        actor=f"node:{node.id}",
        cause=f"{node.hostname} with {len(description.slots)} {node.gpu_type} slots in {node.rack}",
        at_ms=now,
        data={"name": node.hostname, "slots": len(description.slots), "gpu_type": node.gpu_type},
        notify=("cluster",),
    )
    return node.id, credential


def authenticate(credential: str) -> str:
    """The node whose credential this is. Raises credential_invalid or credential_revoked."""
    return enrolment.node_of(credential)


@transaction.atomic
def hello(node_id: str, description: NodeDescription) -> None:
    """A session begins: the node is as it describes itself now, and it is alive."""
    node = Node.objects.select_for_update(no_key=True).filter(id=node_id).first()
    if node is None:
        raise TrainmasterError("node_unknown", node=node_id)
    now = now_ms()
    first = node.last_seen_ms == 0
    differs = _describe(node, description)
    node.last_seen_ms = now
    node.save(update_fields=["last_seen_ms", *_FIELDS])
    if _keep_slots(node, description) or differs:
        sockets.publish(f"node:{node_id}")
        sockets.publish("cluster")
    liveness.saw(node_id, now)
    reason = "its agent has called for the first time" if first else ""
    health.step(node, Heartbeat(at_ms=now, actor=f"node:{node_id}"), reason)
    is_back(node, now)


def note_replaced_session(node_id: str) -> None:
    """Two programs with one credential: a machine that was cloned, or an agent whose connection broke unseen."""
    cause = "a newer session of this node ended the older one"
    with transaction.atomic():
        events.record("SessionReplaced", f"node:{node_id}", actor=f"node:{node_id}", cause=cause)


async def heartbeat(node_id: str, telemetry: Telemetry) -> None:
    """The node is alive and this busy. Redis only; many heartbeats at once share a write."""
    await liveness.recorder().heard(node_id, telemetry)


def sent(node_id: str, newest_ms: int) -> None:
    """A node has sent values, the newest of which was measured then."""
    liveness.sent(node_id, newest_ms, now_ms())


def listening() -> None:
    """Each gateway says every few seconds that it hears: without it the silence of nodes means nothing."""
    liveness.listening(now_ms())


def sweep(
    moment_ms: int | None = None,
    fence: Fence = transaction.atomic,
    clock: Callable[[], int] = silence.boot_ms,
) -> tuple[str, ...]:
    """Judge every node by its last heartbeat; the caller tells the jobs of the returned nodes that they are lost."""
    return health.sweep(now_ms() if moment_ms is None else moment_ms, fence, clock)


def is_lost(node_id: str) -> bool:
    """Whether it still counts as lost, until the end of this transaction: its Hello waits."""
    rows = Node.objects.select_for_update(no_key=True).filter(id=node_id, state=NodeState.LOST)
    return bool(rows.values_list("id", flat=True))


# Nodes without the agent: called over REST


def register(secret: str, registration: Registration) -> tuple[str, str]:
    """By a bootstrap token: the node, and the credential that is shown this once; the same worker on the same host
    comes back as the same node. By the credential: it is as it says now, and the credential stays."""
    if secret.startswith(enrolment.CREDENTIAL_PREFIX):
        node_id = agentless.authenticate(secret, registration.worker_id).id
        credential = ""
    else:
        node_id, credential = join(secret, registration.description, agentless.known(registration.worker_id))
    hello(node_id, registration.description)
    agentless.heard(node_id, registration.available_storage)
    return node_id, credential


def worker_heard(credential: str, worker_id: str, available_storage: int | None = None) -> str:
    """A worker without the agent is alive: its node."""
    node = agentless.authenticate(credential, worker_id)
    agentless.heard(node.id, available_storage)
    return node.id


# Operators


@transaction.atomic
def drain(actor: Actor, node_id: str, cause: str = "") -> None:
    """Nothing new is placed there; what runs may end. A node that is away remembers it."""
    require(actor, "node.operate")
    node = _locked(node_id)
    health.step(node, DrainRequested(at_ms=now_ms(), actor=actor.name, cause=cause))


@transaction.atomic
def resume(actor: Actor, node_id: str) -> None:
    """It takes jobs again; maintenance of it that is due ends, its faults are returned to service, and a notice that it
    goes is forgotten, so that the next one counts."""
    require(actor, "node.operate")
    maintenance.release(node_id)  # locks windows before nodes, as all of maintenance does
    node = _locked(node_id)
    Node.objects.filter(id=node_id).update(leaving_ms=None)
    node.leaving_ms = None
    health.step(node, ResumeRequested(at_ms=now_ms(), actor=actor.name))
    device_health.give_back(node, actor)


@transaction.atomic
def revoke(actor: Actor, node_id: str) -> None:
    """Its credential opens nothing any more, its session ends, nothing is placed there; what runs is soon lost."""
    require(actor, "node.operate")
    node = _locked(node_id)
    if Node.objects.filter(id=node_id, revoked_ms=None).update(revoked_ms=now_ms()):
        events.record(
            "NodeRevoked",
            f"node:{node_id}",
            actor=actor.name,
            cause=node.hostname,
            data={"name": node.hostname},
            notify=("cluster",),
        )
        touch([node_id])


@transaction.atomic
def readmit(actor: Actor, node_id: str) -> None:
    """A revoked or lost node may join again, once, with a bootstrap token. Its earlier credential is dead."""
    require(actor, "node.operate")
    node = _locked(node_id)
    _, dead_digest = enrolment.new_credential()
    away = Node.objects.filter(Q(state=NodeState.LOST) | ~Q(revoked_ms=None), id=node_id)
    if away.update(revoked_ms=None, credential_digest=dead_digest, rejoin_allowed=True):
        events.record(
            "NodeReadmitted",
            f"node:{node_id}",
            actor=actor.name,
            data={"name": node.hostname},
            notify=("cluster",),
        )


# Slots and wanted state: called by jobs and deployments inside their transactions


Seats = Sequence[tuple[str, Sequence[int]]]  # (node, slots of it)


def assign_slots(wanted: Mapping[str, Seats]) -> frozenset[str]:
    """attempt → its seats. Which of them hold all of theirs from now on; the others hold none, the plan was old."""
    nodes = {node_id for seats in wanted.values() for node_id, _ in seats}
    # No join here: Django would move "is empty" into a subquery, which PostgreSQL does not look at again after it has
    # waited for another transaction that took the same slot.
    ready = Node.objects.filter(id__in=nodes, state=NodeState.READY, revoked_ms=None, out_of_service="")
    free = Slot.objects.filter(node__in=ready, attempt_id=None, out_of_service="")
    rows = free.select_for_update(no_key=True).order_by("id")
    empty = {(node_id, index): key for key, node_id, index in rows.values_list("id", "node_id", "index")}
    given: dict[int, dict[str, str]] = {}
    seated = set()
    for attempt_id, seats in wanted.items():
        asked = [(node_id, slot) for node_id, slots in seats for slot in slots]
        if empty.keys() >= set(asked):
            given |= {empty.pop(slot): {"attempt_id": attempt_id} for slot in asked}
            seated.add(attempt_id)
    update_each(Slot, given)
    return frozenset(seated)


def release_slots(held: Collection[tuple[str, str]]) -> int:
    """These (attempt, node) hold nothing there any more. Returns how many slots became free."""
    attempts = {attempt_id for attempt_id, _ in held}
    rows = Slot.objects.filter(attempt_id__in=attempts).values_list("id", "attempt_id", "node_id")
    slots = [key for key, *holder in rows if tuple(holder) in held]
    return Slot.objects.filter(id__in=slots, attempt_id__in=attempts).update(attempt_id=None)


def touch(node_ids: Iterable[str]) -> None:
    """What is wanted of these nodes has changed: a new revision, and a hint after the commit."""
    nodes = sorted(set(node_ids))
    if not nodes:
        return
    with transaction.atomic():
        # a fixed order, so that two transactions that touch the same nodes wait and do not deadlock
        locked = Node.objects.select_for_update(no_key=True).filter(id__in=nodes).order_by("id")
        Node.objects.filter(id__in=list(locked.values_list("id", flat=True))).update(
            wanted_revision=F("wanted_revision") + 1
        )
        transaction.on_commit(lambda: _hint(nodes))


def _hint(nodes: list[str]) -> None:
    liveness.hint(nodes)


def _locked(node_id: str) -> Node:
    node = Node.objects.select_for_update(no_key=True).filter(id=node_id).first()
    if node is None:
        raise TrainmasterError("not_found", what=f"node {node_id}")
    return node


_FIELDS = (
    "hostname", "rack", "block", "gpu_type", "cpus", "memory_bytes", "disk_bytes", "agent_version", "address",
    "transfer_port", "rendezvous_port_low", "rendezvous_port_high", "labels", "receive_cap", "send_cap",
    "versions", "hardware_faults", "holds_ready_files",
)  # fmt: skip
_SLOT_FIELDS = ("name", "uuid", "memory_bytes", "island")


def _describe(node: Node, description: NodeDescription) -> bool:
    """Put the description on the row; whether anything differed."""
    columns = {name: getattr(description, name) for name in _FIELDS}
    columns["hardware_faults"] = list(description.hardware_faults)  # as JSON has it
    differing = {name: value for name, value in columns.items() if getattr(node, name) != value}
    for name, value in differing.items():
        setattr(node, name, value)
    return bool(differing)


def _keep_slots(node: Node, description: NodeDescription) -> bool:
    """The rows follow the description. A slot that is gone but held stays until its attempt has let go."""
    rows = {row.index: row for row in Slot.objects.filter(node=node)}
    changed = []
    for slot in description.slots:
        row = rows.pop(slot.index, None)
        if row is None or any(getattr(row, name) != getattr(slot, name) for name in _SLOT_FIELDS):
            values = {name: getattr(slot, name) for name in _SLOT_FIELDS}
            changed.append(Slot(node=node, index=slot.index, **values))
    Slot.objects.bulk_create(
        changed, update_conflicts=True, unique_fields=["node", "index"], update_fields=_SLOT_FIELDS
    )
    deleted, _ = Slot.objects.filter(node=node, index__in=list(rows), attempt_id=None).delete()
    return bool(changed or deleted)
