"""What goes up in one piece, as a value."""

from __future__ import annotations

from dataclasses import dataclass

from agent.uplink.cursors import Source

# The launcher's own output has no rank. It goes up as a log of rank 1,000,000 + the node's rank in the gang:
# one for each node, out of the way of real ranks, and within a signed 32-bit column.
LAUNCHER_RANK_BASE = 1_000_000
# The spools that the agent itself writes beside those of the ranks: one of each kind for each node of the gang.
SYSTEM_RANK_BASE, EVENT_FILES_RANK_BASE = 2_000_000, 3_000_000


@dataclass(frozen=True, slots=True)
class CheckpointUploaded:
    step: int
    manifest_id: str
    manifest_json: str
    source_url: str
    metrics_json: str
    saved_at_ms: int
    etags: tuple[str, ...] = ()  # what the store calls each file
    format: int = 1  # 2: the part of one node, whose files lie in the store under their digests
    node_rank: int = 0
    nodes: int = 1
    world_size: int = 1
    began_at_ms: int = 0
    blocking_ms: int = 0
    write_ms: int = 0
    emergency: bool = False


@dataclass(frozen=True, slots=True)
class ArtifactUploaded:
    name: str
    manifest_id: str
    manifest_json: str
    source_url: str
    etags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ValueFile:
    """An image or a sound that a script logged; its bytes are the data of the batch."""

    key: str
    step: int
    index: int
    kind: str
    at_ms: int
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """For checkpoints, artifacts and values the offsets are those of their line in the rank's spool."""

    attempt_id: str
    rank: int
    source: Source
    offset: int
    next_offset: int
    data: bytes = b""
    checkpoint: CheckpointUploaded | None = None
    artifact: ArtifactUploaded | None = None
    value: ValueFile | None = None


@dataclass(frozen=True, slots=True)
class Ack:
    attempt_id: str
    rank: int
    source: Source
    next_offset: int
    error: str = ""
