"""What becomes of a job's part on a node whose heartbeats the platform no longer acknowledges."""

from __future__ import annotations

from enum import StrEnum


class WhenCutOff(StrEnum):
    STOP = (
        "stop"  # it ends with the node's lease, and starts elsewhere once that is over: it never runs twice
    )
    CONTINUE = "continue"  # it goes on, and starts elsewhere only once its end is known: it never runs twice
    OVERLAP = "overlap"  # it goes on, and starts elsewhere once the node is lost: it may run twice

    @property
    def outlives_lease(self) -> bool:
        return self is not WhenCutOff.STOP
