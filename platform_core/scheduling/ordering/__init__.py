"""The order in which jobs are tried: one ordering policy per file, chosen by name.

A policy maps the snapshot to sort keys of jobs. The smallest key goes first, and every key ends in the job's id, so the
order does not depend on the order of the snapshot.
"""

from __future__ import annotations

from platform_core.scheduling.ordering import (
    first_come,
    least_attained_service,
    priority_fair_share,
    shortest_remaining,
    size_and_wait,
)
from platform_core.scheduling.ordering.keys import Ordering

ORDERS: dict[str, Ordering] = {
    "first_come": Ordering(first_come.keys),
    "least_attained_service": least_attained_service.two_queues(least_attained_service.PUBLISHED_GPU_MS),
    "least_attained_service_8h": least_attained_service.two_queues(8 * 3_600_000),
    "priority_fair_share": Ordering(priority_fair_share.keys, only_more_urgent=True),
    "shortest_remaining": Ordering(shortest_remaining.keys),
    "size_and_wait": Ordering(size_and_wait.keys, size_and_wait.next_change_ms),
}
