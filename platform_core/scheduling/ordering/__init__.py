"""In which order jobs are tried: one policy a file, chosen by name.

A policy is a function from the snapshot to a key function over pending jobs; the smallest key goes first and
every key ends in the job's id, so the order never depends on how the snapshot was listed.
"""

from __future__ import annotations

from platform_core.scheduling.ordering import (
    first_come,
    least_attained_service,
    priority_fair_share,
    shortest_remaining,
    size_and_wait,
)
from platform_core.scheduling.ordering.keys import HeldPolicy, NextChange, OrderPolicy

ORDERS: dict[str, OrderPolicy] = {
    "first_come": first_come.key_for,
    "least_attained_service": least_attained_service.key_for,
    "priority_fair_share": priority_fair_share.key_for,
    "shortest_remaining": shortest_remaining.key_for,
    "size_and_wait": size_and_wait.key_for,
}
# When the key of a running job next changes by itself, for the orders where time alone moves jobs about.
CHANGES: dict[str, NextChange] = {
    "least_attained_service": least_attained_service.next_change_ms,
    "size_and_wait": size_and_wait.next_change_ms,
}
# Where a running job stands among those that wait; for other orders it stands as if it waited.
HELD: dict[str, HeldPolicy] = {"size_and_wait": size_and_wait.held_key_for}
DEFAULT_ORDER = "priority_fair_share"
