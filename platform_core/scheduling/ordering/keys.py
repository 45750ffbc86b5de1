"""The shape of an ordering policy."""

from __future__ import annotations

from collections.abc import Callable

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot

OrderKey = tuple[float, int, str]  # rank, then the earlier submission, then the id
KeyOfJob = Callable[[PendingJob], OrderKey]
OrderPolicy = Callable[[Snapshot], KeyOfJob]
NextChange = Callable[[RunningJob], int | None]
