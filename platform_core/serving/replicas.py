"""Which replicas start, drain and stop, so that an endpoint has as many as wanted of each version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from platform_core.serving.states import LIVING, EndpointState, ReplicaState
from platform_core.units import SECOND_MS

DRAIN_MS = 3 * SECOND_MS  # until every router has heard that it takes no more requests
UNHEALTHY_MS = 30 * SECOND_MS  # after which a replica is replaced
STUCK_MS = 30 * SECOND_MS  # a replica that waits so long for slots needs those of an older version
_BY_READINESS = {
    ReplicaState.READY: 0, ReplicaState.STARTING: 1, ReplicaState.UNHEALTHY: 2, ReplicaState.WAITING: 3
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Replica:
    id: str
    version: str
    state: ReplicaState
    since_ms: int  # in this state


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`wanted` replicas of the stable version; a canary has as many as its share of the requests needs.

    `refused`: the quota of the team allows no replica more than it has now. `freeing`: the slots of a replica that was
    stopped are not free yet.
    """

    stable: str
    wanted: int
    canary: str = ""
    canary_share: int = 0  # in ten-thousandths
    stopped: bool = False
    was_ready: bool = False
    refused: bool = False
    freeing: bool = False

    @property
    def canary_replicas(self) -> int:
        return max(1, -(-self.wanted * self.canary_share // 10_000)) if self.canary else 0


@dataclass(frozen=True, slots=True)
class Start:
    version: str


@dataclass(frozen=True, slots=True)
class Drain:
    """It gets no more requests."""

    replica: str


@dataclass(frozen=True, slots=True)
class Stop:
    replica: str


Action = Start | Drain | Stop


def plan(endpoint: Endpoint, replicas: Sequence[Replica], now_ms: int) -> tuple[Action, ...]:
    """The actions to take now. A version that is replaced serves on until the new one is ready in its place.

    A canary starts before the replicas that the stable version lacks: it gets the slots that were given up for it.
    """
    finished = _finished(replicas, now_ms)
    actions: list[Action] = [Stop(one.id) for one in finished]
    replicas = [one for one in replicas if one not in finished]
    wanted = {endpoint.canary: endpoint.canary_replicas} if endpoint.canary else {}
    wanted[endpoint.stable] = _beside_canary(endpoint, replicas, now_ms)
    if endpoint.stopped:
        wanted = {}
    for version, number in wanted.items():
        actions += _toward(version, number, replicas)
    old = [one for one in replicas if one.version not in wanted and one.state in LIVING]
    keep = 0 if endpoint.stopped else _needed_still(endpoint, replicas, now_ms)
    oldest_last = sorted(old, key=lambda one: (_BY_READINESS[one.state], one.id))
    actions += [_leave(one) for one in oldest_last[keep:]]
    return tuple(actions)


def _finished(replicas: Sequence[Replica], now_ms: int) -> list[Replica]:
    """Drained replicas, and those that have not answered for too long."""
    limits = {ReplicaState.DRAINING: DRAIN_MS, ReplicaState.UNHEALTHY: UNHEALTHY_MS}
    return [one for one in replicas if one.state in limits and now_ms - one.since_ms >= limits[one.state]]


def _toward(version: str, number: int, replicas: Sequence[Replica]) -> list[Action]:
    """Starts what is missing of one version, or lets the superfluous leave, the least ready first."""
    living = [one for one in replicas if one.version == version and one.state in LIVING]
    if len(living) <= number:
        return [Start(version)] * (number - len(living))
    ordered = sorted(living, key=lambda one: (_BY_READINESS[one.state], one.id))
    return [_leave(one) for one in ordered[number:]]


def _leave(replica: Replica) -> Action:
    return Drain(replica.id) if replica.state is ReplicaState.READY else Stop(replica.id)


def _beside_canary(endpoint: Endpoint, replicas: Sequence[Replica], now_ms: int) -> int:
    """How many replicas of the stable version a canary leaves: fewer, one by one, where it gets no slots otherwise."""
    of_canary = [one for one in replicas if one.version == endpoint.canary and one.state in LIVING]
    missing = endpoint.canary_replicas - sum(one.state is not ReplicaState.WAITING for one in of_canary)
    if missing <= 0 or not _lacks_slots(endpoint, of_canary, now_ms):
        return endpoint.wanted
    living = sum(one.version == endpoint.stable and one.state in LIVING for one in replicas)
    least = max(1, endpoint.wanted - missing)
    return min(endpoint.wanted, max(least, living if _gets_slots(endpoint, replicas) else living - 1))


def _needed_still(endpoint: Endpoint, replicas: Sequence[Replica], now_ms: int) -> int:
    """How many of other versions still serve until enough of the stable one are ready.

    One fewer where the new version gets no slots: a full cluster or quota must not hold up a change for ever. The last
    one that is ready stays in any case.
    """
    stable = [one for one in replicas if one.version == endpoint.stable]
    ready = sum(one.state is ReplicaState.READY for one in stable)
    missing = max(0, endpoint.wanted - ready)
    if missing and _lacks_slots(endpoint, stable, now_ms) and not _gets_slots(endpoint, replicas):
        others = sum(one.version != endpoint.stable and one.state in LIVING for one in replicas)
        return min(missing, max(0 if ready else 1, others - 1))
    return missing


def _lacks_slots(endpoint: Endpoint, of_version: Sequence[Replica], now_ms: int) -> bool:
    """Whether a version has waited long for slots, or may not even ask for them."""
    return endpoint.refused or any(
        one.state is ReplicaState.WAITING and now_ms - one.since_ms >= STUCK_MS for one in of_version
    )


def _gets_slots(endpoint: Endpoint, replicas: Sequence[Replica]) -> bool:
    """Whether a replica has given up its slots already."""
    return endpoint.freeing or any(one.state is ReplicaState.DRAINING for one in replicas)


def state_of(endpoint: Endpoint, replicas: Sequence[Replica]) -> EndpointState:
    """The state that people see."""
    ready = sum(one.state is ReplicaState.READY for one in replicas)
    if endpoint.stopped:
        left = any(one.state is not ReplicaState.ENDED for one in replicas)
        return EndpointState.STOPPING if left else EndpointState.STOPPED
    if not endpoint.wanted:
        return EndpointState.IDLE
    if not ready:
        return EndpointState.UNAVAILABLE if endpoint.was_ready else EndpointState.STARTING
    return EndpointState.SERVING if ready >= endpoint.wanted else EndpointState.DEGRADED
