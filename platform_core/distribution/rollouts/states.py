"""The states, events and values of rollouts and their members."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from platform_core.distribution.rollouts.canaries import RolloutPlan


class RolloutState(StrEnum):
    DISTRIBUTING = "distributing"
    CANARY = "canary"
    HOLDING = "holding"
    PROMOTING = "promoting"
    ACTIVE = "active"
    FAILED = "failed"
    ROLLED_BACK = "rolled_back"


class MemberState(StrEnum):
    WAITING = "waiting"
    READY = "ready"
    SWITCHING = "switching"
    ACTIVE = "active"
    FAILED = "failed"
    RETURNING = "returning"
    RETURNED = "returned"


@dataclass(frozen=True, slots=True)
class _Event:
    at_ms: int
    actor: str


@dataclass(frozen=True, slots=True)
class NodeHolds(_Event):
    """The node has a verified copy."""

    node: str


@dataclass(frozen=True, slots=True)
class NodeLacks(_Event):
    """The node has no copy; `why` if none will come by itself."""

    node: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class NodeSwitched(_Event):
    """The link points to the version, and the hook, if there is one, succeeded."""

    node: str
    revision: int


@dataclass(frozen=True, slots=True)
class SwitchFailed(_Event):
    """The hook failed and the link was reset. `exit_code` None: the node gave no answer; `output` says since when."""

    node: str
    revision: int
    exit_code: int | None
    output: str


@dataclass(frozen=True, slots=True)
class CheckEnded(_Event):
    """The health check ended. `exit_code` None: the node gave no answer; `output` says since when."""

    node: str
    round: int
    exit_code: int | None
    output: str


@dataclass(frozen=True, slots=True)
class NodeReturned(_Event):
    """The node runs what was active before again, if anything; with the outcome of its hook."""

    node: str
    exit_code: int = 0
    output: str = ""


@dataclass(frozen=True, slots=True)
class TimePassed(_Event):
    """The clock may end a hold or make a check due; too early it changes nothing."""


@dataclass(frozen=True, slots=True)
class PromoteRequested(_Event):
    """The canaries are checked once more; if they pass, the others follow."""


@dataclass(frozen=True, slots=True)
class RetryRequested(_Event):
    """Failed members try again."""


@dataclass(frozen=True, slots=True)
class RollBackRequested(_Event):
    pass


NodeEvent = NodeHolds | NodeLacks | NodeSwitched | SwitchFailed | CheckEnded | NodeReturned
Event = NodeEvent | TimePassed | PromoteRequested | RetryRequested | RollBackRequested

_S, _M = RolloutState, MemberState
TOLD = frozenset({_M.SWITCHING, _M.ACTIVE})

DESCRIPTION: dict[RolloutState, str] = {
    _S.DISTRIBUTING: "The nodes that switch first do not hold the version yet; every node runs what it ran before.",
    _S.CANARY: "The canaries switch.",
    _S.HOLDING: "The canaries run the new version and are watched; the others run what they ran before.",
    _S.PROMOTING: "Every node switches as soon as it holds the version.",
    _S.ACTIVE: "Every node that could be reached runs the new version.",
    _S.FAILED: "A canary failed, so no other node switches; or nobody could switch. Try again, or roll back.",
    _S.ROLLED_BACK: "The nodes run what they ran before; no bytes were moved.",
}


@dataclass(frozen=True, slots=True)
class Check:
    round: int
    exit_code: int | None  # None: no answer came in time
    output: str = ""
    failures: int = 0  # in a row, with this one


@dataclass(frozen=True, slots=True)
class Member:
    node: str
    state: MemberState = MemberState.WAITING
    canary: bool = False
    revision: int = 0  # how often it was told to switch
    told_ms: int | None = None  # when, the last time
    check: Check | None = None
    exit_code: int | None = None  # of the hook, where it failed; none: no answer came in time
    output: str = ""
    why: str = ""  # it has no copy, and why none comes by itself

    @property
    def told(self) -> bool:
        """True if the version should be active on the node."""
        return self.state in TOLD


@dataclass(frozen=True, slots=True)
class Rollout:
    """Members in the order in which they become canaries. Only `advance` makes a new value."""

    id: str
    plan: RolloutPlan
    members: tuple[Member, ...]
    state: RolloutState = RolloutState.DISTRIBUTING
    version: int = 1
    round: int = 0  # of health checks
    asked_ms: int | None = None  # when the canaries were asked for it
    holding_since_ms: int | None = None
    stopped: bool = False  # a canary failed
    released: bool = False  # the hold is over, or somebody said so
    promoted: bool = False
    reason: str = ""

    @property
    def canaries(self) -> tuple[Member, ...]:
        return tuple(member for member in self.members if member.canary)
