"""Whether a person may delete a checkpoint."""

from __future__ import annotations

from platform_core.checkpointing.retention import Kept


def why_not(checkpoint: Kept) -> str:
    """A clause for one that stays whoever asks; "" for one that may go. Damaged ones go like any other."""
    if checkpoint.pinned:
        return "it is pinned; unpin it first"
    if checkpoint.in_use:
        return "it is in use: a model version, a job that may start from it, or a recall needs it"
    return ""
