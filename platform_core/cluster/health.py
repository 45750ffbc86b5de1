"""The life of a node as the platform sees it: heartbeats, silence, draining."""

from __future__ import annotations

from enum import StrEnum


class NodeState(StrEnum):
    READY = "ready"
    SUSPECT = "suspect"
    LOST = "lost"
    DRAINING = "draining"
    DRAINED = "drained"
