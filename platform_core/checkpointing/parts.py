"""A checkpoint of format 2: each node saves a part, and the checkpoint exists when every part is in the store."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from platform_core.distribution.content.manifest import (
    DEFAULT_PIECE_SIZE,
    FileDigester,
    FilePart,
    Manifest,
    join,
    split,
)
from platform_core.errors import TrainmasterError

DESCRIPTION = "trainmaster.json"
FORMAT = 2


@dataclass(frozen=True, slots=True)
class Part:
    """The files that one node saved, without its description."""

    node_rank: int
    nodes: int
    world_size: int
    manifest: Manifest
    saved_at_ms: int
    began_at_ms: int = 0  # 0: not known
    blocking_ms: int = 0  # for which training stood still
    write_ms: int = 0
    emergency: bool = False
    metrics: Mapping[str, float] | None = None


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Ranks of the nodes whose parts are not in the store yet."""

    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Merged:
    """`description` is the file that names all files of the checkpoint; the manifest includes it."""

    manifest: Manifest
    description: bytes
    whole: Part  # the numbers of all parts together


def merge(step: int, parts: Iterable[Part]) -> Merged | Incomplete:
    """The one manifest of all parts; the order of the parts does not matter. Raises manifest_invalid for parts that do
    not belong together."""
    ordered = sorted(parts, key=lambda part: part.node_rank)
    if not ordered:
        return Incomplete(())
    first = ordered[0]
    for part in ordered:
        _check(part, first)
    missing = set(range(first.nodes)) - {part.node_rank for part in ordered}
    if missing:
        return Incomplete(tuple(sorted(missing)))
    files = [file for part in ordered for file in split(part.manifest)]
    known = sorted(part.began_at_ms for part in ordered if part.began_at_ms)
    whole = Part(
        node_rank=0,
        nodes=first.nodes,
        world_size=first.world_size,
        manifest=join("checkpoint", files, first.manifest.piece_size),
        saved_at_ms=max(part.saved_at_ms for part in ordered),
        began_at_ms=known[0] if known else 0,
        blocking_ms=max(part.blocking_ms for part in ordered),
        write_ms=max(part.write_ms for part in ordered),
        emergency=any(part.emergency for part in ordered),
        metrics=dict(first.metrics or {}),
    )
    description = describe(step, whole)
    digester = FileDigester(DESCRIPTION, piece_size=whole.manifest.piece_size)
    digester.feed(description)
    manifest = join("checkpoint", [*files, digester.finish()], whole.manifest.piece_size)
    return Merged(manifest, description, whole)


def describe(step: int, part: Part) -> bytes:
    """`trainmaster.json` as the SDK reads it."""
    document = {
        "format": FORMAT,
        "step": step,
        "saved_at_ms": part.saved_at_ms,
        "began_at_ms": part.began_at_ms,
        "blocking_ms": part.blocking_ms,
        "write_ms": part.write_ms,
        "world_size": part.world_size,
        "nodes": part.nodes,
        "node_rank": part.node_rank,
        "metrics": dict(part.metrics or {}),
        "emergency": part.emergency,
        "files": [
            {
                "path": file.entry.path,
                "size": file.entry.size,
                "sha256": digest_of_pieces(file),
                "chunks": [piece for chunk in file.chunks for piece in chunk.pieces],
            }
            for file in split(part.manifest)
        ],
    }
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def digest_of_pieces(file: FilePart) -> str:
    """The `sha256` of a file of format 2 as the SDK has it: of the digests of its pieces, one after another."""
    digests = [bytes.fromhex(piece) for chunk in file.chunks for piece in chunk.pieces]
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _check(part: Part, first: Part) -> None:
    why = ""
    if not 0 <= part.node_rank < part.nodes:
        why = f"node rank {part.node_rank} is not one of {part.nodes} nodes"
    elif (part.nodes, part.world_size) != (first.nodes, first.world_size):
        why = (
            f"node {part.node_rank} saved for {part.nodes} nodes and {part.world_size} ranks, "
            f"node {first.node_rank} for {first.nodes} and {first.world_size}"
        )
    elif part.manifest.piece_size != DEFAULT_PIECE_SIZE:
        why = f"its pieces have {part.manifest.piece_size} bytes, not {DEFAULT_PIECE_SIZE}"
    elif any(entry.path == DESCRIPTION for entry in part.manifest.files):
        why = f"{DESCRIPTION} is written by the platform"
    if why:
        raise TrainmasterError("manifest_invalid", why=why)
