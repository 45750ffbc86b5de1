"""Node rows as the values the core decides with."""

from django.conf import settings

from platform_core.cluster.health import HealthLimits, NodeHealth, NodeState
from platform_core.cluster.snapshot import NodeView
from platform_core.cluster.topology import Islands
from platform_core.jobs.constraints import SPOT
from webapp.nodes.models import Node


def limits() -> HealthLimits:
    return HealthLimits(settings.SUSPECT_AFTER_SECONDS * 1000, settings.LOST_AFTER_SECONDS * 1000)


def health(node: Node) -> NodeHealth:
    return NodeHealth(
        id=node.id,
        state=NodeState(node.state),
        since_ms=node.state_since_ms,
        last_seen_ms=node.last_seen_ms,
        drain_requested=node.drain_requested,
        reason=node.state_reason,
    )


def is_spot(node: Node) -> bool:
    return node.all_labels.get(SPOT) == "yes"


def _taints(node: Node) -> tuple[str, ...]:
    closed = settings.SPOT_PREEMPTIBLE_ONLY and is_spot(node)
    return tuple(sorted({*node.taints, SPOT})) if closed else tuple(node.taints)


def view(
    node: Node,
    slots: int,
    free: tuple[int, ...],
    windows: tuple[tuple[int, int], ...] = (),
    islands: Islands = (),
    disk_full: bool = False,
) -> NodeView:
    return NodeView(
        id=node.id,
        hostname=node.hostname,
        rack=node.rack,
        block=node.block,
        gpu_type=node.gpu_type,
        slots=slots,
        free_slots=free,
        state=NodeState(node.state),
        labels=tuple(sorted(node.all_labels.items())),
        cpus=node.cpus,
        memory_bytes=node.memory_bytes,
        taints=_taints(node),
        windows=windows,
        islands=islands,
        disk_full=disk_full,
        out_of_service=bool(node.out_of_service),
    )
