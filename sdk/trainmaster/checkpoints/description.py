"""`trainmaster.json`: what the folder of a checkpoint holds, for the SDK, the agent and a person. No torch in here.

Format 2, one description a node:

    {"format": 2, "step", "saved_at_ms", "began_at_ms", "blocking_ms", "write_ms", "world_size", "nodes", "node_rank",
     "metrics", "emergency", "files": [{"path", "size", "sha256", "chunks": [SHA-256 of each 4 MiB]}]}

- The `sha256` of a file is the SHA-256 of its chunk digests (32 bytes each) one after another, not of its content:
  hashing every byte twice would double the cost. A file of format 1 has no chunks and the SHA-256 of its content.
- The ranks of a node share a folder, so `nodes` counts folders: 1 on a laptop and on a shared file system.
- The parts of one save have the same `step` and `began_at_ms`.
- Paths are unique over the gang and the same at each save of the same state: `rank-00000-000.safetensors` has tensors,
  `values-00000.pt` the rest of the state and the random state of a rank, `tensors.json`, in the part of rank 0, says
  where each block of each tensor lies (instead of the pickle that torch.distributed.checkpoint writes).
- Format 1 has `state.pt` and `random.pt`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

DESCRIPTION = "trainmaster.json"
CHUNK = 4 << 20
# The whole numbers, with what stands for those that a description of format 1 lacks.
_NUMBERS = {
    "step": 0, "saved_at_ms": 0, "began_at_ms": 0, "blocking_ms": 0, "write_ms": 0,
    "world_size": 1, "nodes": 1, "node_rank": 0,
}  # fmt: skip


class CheckpointCorrupt(Exception):
    """Its files differ from what was saved. The message is a sentence."""


# The agent knows the error by this name in the last line of a rank, whatever module it is defined in.
CheckpointCorrupt.__module__ = "trainmaster.checkpoints.folder"


@dataclass(frozen=True, slots=True)
class SavedFile:
    path: str
    size: int
    sha256: str
    chunks: tuple[str, ...] = ()  # none in format 1


@dataclass(frozen=True, slots=True)
class Description:
    step: int
    metrics: Mapping[str, float]
    world_size: int
    saved_at_ms: int
    files: tuple[SavedFile, ...] = ()
    format: int = 2
    began_at_ms: int = 0
    blocking_ms: int = 0
    write_ms: int = 0
    nodes: int = 1
    node_rank: int = 0
    emergency: bool = False

    @property
    def save(self) -> tuple[int, int]:
        """The same for all parts of one save."""
        return self.step, self.began_at_ms or self.saved_at_ms

    def with_files_of(self, others: Iterable[Description]) -> Description:
        files = {file.path: file for part in (self, *others) if part.save == self.save for file in part.files}
        return replace(self, files=tuple(files.values()))


def file_digest(chunks: Iterable[str]) -> str:
    """The `sha256` of a file of format 2."""
    return hashlib.sha256(b"".join(map(bytes.fromhex, chunks))).hexdigest()


def encode(description: Description) -> bytes:
    finite = {name: value for name, value in description.metrics.items() if math.isfinite(value)}
    document = {
        "format": 2,
        **{name: getattr(description, name) for name in _NUMBERS},
        "emergency": description.emergency,
        "metrics": finite,
        "files": [
            {"path": file.path, "size": file.size, "sha256": file.sha256, "chunks": file.chunks}
            for file in description.files
        ],
    }
    return json.dumps(document, indent=1).encode()


def read(folder: Path) -> Description:
    """CheckpointCorrupt when there is none, or none that makes sense."""
    try:
        document = json.loads((folder / DESCRIPTION).read_text())
        return Description(
            metrics=dict(document.get("metrics") or {}),
            files=tuple(
                SavedFile(str(file["path"]), int(file["size"]), str(file["sha256"]), tuple(file.get("chunks", ())))
                for file in document["files"]
            ),
            format=int(document.get("format", 1)),
            step=int(document["step"]),
            **{name: int(document.get(name, value)) for name, value in _NUMBERS.items() if name != "step"},
            emergency=bool(document.get("emergency", False)),
        )  # fmt: skip
    except OSError as error:
        why = error.strerror or str(error)
        raise CheckpointCorrupt(f"{folder} is no checkpoint: {DESCRIPTION} cannot be read ({why})") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointCorrupt(f"{folder}: {DESCRIPTION} does not make sense ({error!r})") from error
