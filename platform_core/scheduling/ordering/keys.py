"""The shape of an ordering policy."""

from __future__ import annotations

from collections.abc import Callable

from platform_core.cluster.snapshot import PendingJob, RunningJob, Snapshot

OrderKey = tuple[float, int, str]  # rank, then the earlier submission, then the id
KeyOfJob = Callable[[PendingJob], OrderKey]
OrderPolicy = Callable[[Snapshot], KeyOfJob]
KeyOfHeld = Callable[[RunningJob], OrderKey]
HeldPolicy = Callable[[Snapshot], KeyOfHeld]
NextChange = Callable[[RunningJob, int], int | None]  # of a job at a time
