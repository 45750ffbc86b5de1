"""Which bytes nobody needs any more, and when they go: found first, deleted after a time of grace."""

from __future__ import annotations

from enum import StrEnum

from platform_core.units import DAY_MS


class LeftoverKind(StrEnum):
    UPLOAD = "upload"  # it was begun and never completed
    FILES = "files"  # of a dataset or model that no version refers to


OLD_MS = {LeftoverKind.UPLOAD: 7 * DAY_MS, LeftoverKind.FILES: 30 * DAY_MS}  # since it was last written


def is_leftover(kind: LeftoverKind, changed_ms: int, now_ms: int) -> bool:
    """Of bytes to which nothing refers, last written at `changed_ms`."""
    return now_ms - changed_ms >= OLD_MS[kind]


def is_due(found_ms: int, kept: bool, grace_ms: int, now_ms: int) -> bool:
    """Whether it is deleted now. Without a time of grace nothing ever is."""
    return grace_ms > 0 and not kept and now_ms - found_ms >= grace_ms
