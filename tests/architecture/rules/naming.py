"""A module is called after what it is about."""

from collections.abc import Iterator
from pathlib import Path

from tests.architecture.rules.sources import EVERYTHING

BANNED = {"util", "utils", "helper", "helpers", "common", "misc", "constants", "stuff", "shared"}


def violations(root: Path) -> Iterator[str]:
    for folder in (*EVERYTHING, "proto/trainmaster_wire"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".py", ""} and path.stem.lower().strip("_") in BANNED:
                yield f"{path.relative_to(root)} is a dumping ground by name; file what it holds under its subject"
