"""In which order jobs are tried: one policy a file, chosen by name.

A policy is a function from the snapshot to a key function over pending jobs; the smallest key goes first and
every key ends in the job's id, so the order never depends on how the snapshot was listed.
"""

from __future__ import annotations

from platform_core.scheduling.ordering import (
    expected_remaining,
    first_come,
    least_attained_service,
    priority_fair_share,
    shortest_remaining,
    shortest_with_age,
)
from platform_core.scheduling.ordering.keys import NextChange, OrderPolicy

ORDERS: dict[str, OrderPolicy] = {
    "expected_remaining": expected_remaining.key_for,
    "first_come": first_come.key_for,
    "least_attained_service": least_attained_service.key_for,
    "priority_fair_share": priority_fair_share.key_for,
    "shortest_remaining": shortest_remaining.key_for,
    "shortest_with_age": shortest_with_age.key_for,
}
# When the key of a running job next changes by itself, for the orders where time alone moves jobs about.
CHANGES: dict[str, NextChange] = {"least_attained_service": least_attained_service.next_change_ms}
DEFAULT_ORDER = "priority_fair_share"
