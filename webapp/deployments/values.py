from dataclasses import dataclass

from platform_core.distribution.deployments.sharing import USUAL, Share
from platform_core.distribution.rollouts.canaries import DEFAULT_CHECK_SECONDS, DEFAULT_COMMAND_SECONDS
from webapp.artifacts.values import ArtifactReference


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What an agent says of its part: `state` is idle, receiving, verifying, complete or failed."""

    deployment_id: str
    state: str
    bytes_done: int
    bytes_total: int
    chunks_done: bytes
    rate_in: float
    rate_out: float
    source: str
    error_code: str
    error: str
    retries: int
    distrusted: tuple[str, ...] = ()  # who sent it bytes with another SHA-256
    store_bytes: int = 0  # since its agent began
    held: tuple[int, ...] = ()  # bytes, by lane
    refused_bytes: int = 0  # those with another SHA-256, since its agent began


@dataclass(frozen=True, slots=True)
class RolloutWish:
    """How the nodes shall switch, in the words of whoever asks; see platform_core.distribution.rollouts.canaries."""

    canary: str = ""  # a number or a percentage; none: nobody goes first
    hold_seconds: int | None = None  # none: until somebody promotes
    health_check: str = ""
    check_every_seconds: int = DEFAULT_CHECK_SECONDS  # 0: at both ends of the hold alone
    roll_back_after: int = 0  # failed checks in a row; 0: the first one stops the rollout where it is
    hook: str = ""
    wait_for_all: bool = False
    command_seconds: int = DEFAULT_COMMAND_SECONDS


@dataclass(frozen=True, slots=True)
class ActivationWanted:
    """What of a model shall be active on a node."""

    model: str
    version: str
    deployment_id: str
    revision: int
    hook: str
    health_check: str
    round: int
    command_seconds: int
    previous_version: str


@dataclass(frozen=True, slots=True)
class ActivationReport:
    """What an agent says of it: `state` is switching, active or failed."""

    model: str
    version: str
    deployment_id: str
    revision: int
    state: str
    exit_code: int
    output: str
    round: int
    check_exit_code: int
    check_output: str


@dataclass(frozen=True, slots=True)
class Manner:
    """How a model goes to its nodes. `preheat`: fetched and verified, never activated, and the first to go for room;
    `pin`: never to go for room. `priority` weighs where deployments share a link, 0 is the usual one; `rate_cap` in
    bytes per second holds on each node, in and out, 0 is none."""

    strategy: str = "auto"  # one of planning.STRATEGIES
    preheat: bool = False
    pin: bool = False
    rollout: RolloutWish | None = None  # none: the bytes alone
    priority: int = 0
    rate_cap: int = 0


@dataclass(frozen=True, slots=True)
class Peer:
    node_id: str
    address: str


@dataclass(frozen=True, slots=True)
class WorkerWanted:
    deployment_id: str
    model: str
    version: str
    artifact: ArtifactReference
    peers: tuple[Peer, ...]
    transfer_token: str
    lanes: tuple[tuple[str, ...], ...]
    slower: frozenset[int]
    retry: int
    pinned: bool = False
    preheat: bool = False
    share: Share = USUAL  # of the node's link
