from dataclasses import dataclass

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
    offers: tuple[tuple[str, int], ...] = ()  # by lane whom it follows, and the bytes it has yet to take
    refused_bytes: int = 0  # those with another SHA-256, since its agent began


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
