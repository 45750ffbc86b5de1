"""Migrations of a release are only added to: a database that has run one never runs it again."""

import json
from collections.abc import Iterator
from pathlib import Path

from tools.release_snapshot import migrations

RECORD = "tests/releases/migrations.json"


def violations(root: Path) -> Iterator[str]:
    if not (root / RECORD).exists():
        return
    record = json.loads((root / RECORD).read_text())
    present = migrations(root)
    for name, digest in record["migrations"].items():
        if name not in present:
            yield f"{name} is part of release {record['version']} and is gone; migrations are only added"
        elif present[name] != digest:
            yield f"{name} is part of release {record['version']} and was changed; add a new migration instead"
