"""Names of event files, and of the series in them."""

from __future__ import annotations

import re

FILE_PREFIX = "events.out.tfevents."
# Folders by which writers tell data apart: always part of the series' names.
SPLITS = frozenset({"train", "training", "val", "valid", "validation", "test", "eval", "dev"})
_WRITTEN_AT = re.compile(re.escape(FILE_PREFIX) + r"(\d{1,12})(?!\d)")
_TIMESTAMP = re.compile(r"\d{9,}(\.\d+)?")  # the folder that `add_hparams` of PyTorch makes


def written_at(name: str) -> int | None:
    """Seconds; None where the name does not say."""
    match = _WRITTEN_AT.match(name.rpartition("/")[2])
    return int(match[1]) if match else None


def folder_of(name: str) -> str:
    return name.rpartition("/")[0]


def prefix_of(folder: str, main: str) -> str:
    """What tells the series of a folder of event files apart from those of the main one, the first that was written.

    Folders are relative, with forward slashes. A folder below the main one adds its path there (`add_scalars` of
    PyTorch makes such), one beside it what they do not share; `train`, `val` and their like are always named.
    """
    parts, main_parts = _parts(folder), _parts(main)
    shared = 0
    while shared < min(len(parts), len(main_parts)) and parts[shared] == main_parts[shared]:
        shared += 1
    own = parts[shared:] or [part for part in parts[-1:] if part in SPLITS]
    return "".join(f"{part}/" for part in own if not _TIMESTAMP.fullmatch(part))


def _parts(folder: str) -> list[str]:
    return folder.split("/") if folder else []
