"""Who this node is: its id and its credential, kept in the data folder and readable by its owner only."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from agent.files import write_atomically

FILE = "node.json"


@dataclass(frozen=True, slots=True)
class Identity:
    node_id: str
    credential: str = field(repr=False)


def load(data: Path) -> Identity | None:
    """None when the node has not joined yet, or its file is damaged (then it joins again)."""
    try:
        document = json.loads((data / FILE).read_text())
        return Identity(str(document["node_id"]), str(document["credential"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def save(data: Path, identity: Identity) -> None:
    data.mkdir(parents=True, exist_ok=True)
    document = {"node_id": identity.node_id, "credential": identity.credential}
    write_atomically(data / FILE, json.dumps(document).encode(), mode=0o600, durable=True)
