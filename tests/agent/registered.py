"""What an agent saved, as the platform registers it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from platform_core.checkpointing.parts import Merged, Part, merge
from platform_core.distribution.content.layout import BY_DIGEST
from platform_core.distribution.content.manifest import Manifest, from_json
from trainmaster_wire.agent.v1 import uplink_pb2


def registered(store: Path, uploaded: uplink_pb2.CheckpointUploaded) -> Manifest:
    """Of a checkpoint of one part: with the description of all parts beside it in the store."""
    part = Part(
        0, uploaded.nodes, uploaded.world_size, from_json(uploaded.manifest_json), uploaded.saved_at_ms,
        uploaded.began_at_ms,
    )  # fmt: skip
    merged = merge(uploaded.step, [part])
    assert isinstance(merged, Merged)
    place = store / BY_DIGEST / hashlib.sha256(merged.description).hexdigest()
    place.write_bytes(merged.description)
    return merged.manifest
