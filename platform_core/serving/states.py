"""States of endpoints and replicas."""

from __future__ import annotations

from enum import StrEnum


class EndpointState(StrEnum):
    STARTING = "starting"  # no replica was ready yet
    SERVING = "serving"
    DEGRADED = "degraded"  # fewer replicas are ready than wanted
    UNAVAILABLE = "unavailable"  # no replica is ready although one was
    IDLE = "idle"  # scaled to zero; a request wakes it
    STOPPING = "stopping"
    STOPPED = "stopped"


class ReplicaState(StrEnum):
    WAITING = "waiting"  # for slots, or for another attempt
    STARTING = "starting"
    READY = "ready"
    UNHEALTHY = "unhealthy"  # it was ready, and does not answer
    DRAINING = "draining"
    ENDED = "ended"


LIVING = frozenset(ReplicaState) - {ReplicaState.DRAINING, ReplicaState.ENDED}
