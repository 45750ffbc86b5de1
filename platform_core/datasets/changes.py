"""What differs between two lists of files: two versions of a dataset, or a version and its source today."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells a file from another under the same path: its size and its digest or etag ("": none is known)."""

    size: int
    name: str = ""

    def is_same(self, other: Mark) -> bool:
        return self.size == other.size and (self.name == other.name or "" in (self.name, other.name))


@dataclass(frozen=True, slots=True)
class Changes:
    """Paths in order; `*_bytes` are of the files as they are later, of removed files as they were."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    unchanged: int
    added_bytes: int
    removed_bytes: int
    changed_bytes: int
    unchanged_bytes: int

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)

    def __str__(self) -> str:
        """For sentences."""
        if not self:
            return f"all {self.unchanged:,} files are unchanged"
        counts = ((self.added, "added"), (self.removed, "removed"), (self.changed, "changed"))
        return ", ".join(f"{len(paths):,} {word}" for paths, word in counts if paths)


def compare(before: Mapping[str, Mark], after: Mapping[str, Mark]) -> Changes:
    added = sorted(after.keys() - before.keys())
    removed = sorted(before.keys() - after.keys())
    both = before.keys() & after.keys()
    changed = sorted(path for path in both if not before[path].is_same(after[path]))
    unchanged = both - set(changed)
    return Changes(
        tuple(added), tuple(removed), tuple(changed), len(unchanged),
        _bytes(after, added), _bytes(before, removed), _bytes(after, changed), _bytes(after, unchanged),
    )  # fmt: skip


def _bytes(marks: Mapping[str, Mark], paths: Iterable[str]) -> int:
    return sum(marks[path].size for path in paths)
