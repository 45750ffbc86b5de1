"""`orders.json` in an attempt's work folder: the orders to its running script, which `trainmaster.orders` reads."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from agent.job_files import JobPath
from agent.work_folder import WorkFolder
from platform_core.node.wanted import AttemptWanted, ProfileOrder

NAME = "orders.json"


@dataclass(frozen=True, slots=True)
class StopOrder:
    at_ms: int
    deadline_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class Orders:
    save: int = 0
    checkpoint_interval_ms: int = 0  # 0: the interval that its environment names
    stop: StopOrder | None = None
    profiles: tuple[ProfileOrder, ...] = ()


def orders_of(wanted: AttemptWanted) -> Orders:
    return Orders(wanted.save_order, wanted.checkpoint_interval_ms, profiles=wanted.profiles)


def stop_order(now_ms: int, grace_seconds: int, wanted: AttemptWanted | None) -> StopOrder:
    """The deadline that the platform set, and never a later one than the grace allows by this node's clock."""
    deadline_ms = now_ms + 1000 * grace_seconds
    if wanted is None:
        return StopOrder(now_ms, deadline_ms, "")
    if wanted.stop_deadline_ms:
        deadline_ms = min(deadline_ms, max(now_ms, wanted.stop_deadline_ms))
    return StopOrder(now_ms, deadline_ms, wanted.stop_reason)


def write_orders(folder: WorkFolder, orders: Orders) -> None:
    """Replaces the file as a whole; a script reads the old orders or the new ones."""
    document: dict[str, object] = {
        "save": orders.save, "checkpoint_interval_ms": orders.checkpoint_interval_ms,
    }  # fmt: skip
    if orders.stop is not None:
        stop = orders.stop
        document["stop"] = {"at_ms": stop.at_ms, "deadline_ms": stop.deadline_ms, "reason": stop.reason}
    if orders.profiles:
        document["profiles"] = [asdict(profile) for profile in orders.profiles]
    JobPath(folder.path, NAME).replace(json.dumps(document).encode())
