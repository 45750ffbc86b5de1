"""What a database names of a store that is a folder, and that is not there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from platform_core.distribution.content.layout import stored_path
from platform_core.distribution.content.manifest import FileEntry
from platform_core.units import format_bytes, plural
from webapp.operations import dump

SHOWN = 5


@dataclass
class Missing:
    """Files that are absent or have another size."""

    owners: Counter[str] = field(default_factory=Counter)  # kind → how many have one
    files: int = 0
    bytes: int = 0
    first: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return self.files > 0

    def __str__(self) -> str:
        of = ", ".join(plural(number, kind) for kind, number in sorted(self.owners.items()))
        some = ", ".join(self.first) + (" and more" if self.files > len(self.first) else "")
        return f"{plural(self.files, 'file')} of {of}, {format_bytes(self.bytes)}: {some}"


def in_folder(database_url: str, store_url: str) -> Missing:
    """Sizes are compared, and digests are not: the scrub of the platform does that."""
    missing = Missing()
    for kind, source_url, files in dump.listed(database_url, store_url):
        absent = list(_absent(source_url, files))
        missing.owners[kind] += bool(absent)
        missing.files += len(absent)
        missing.bytes += sum(size for _, size in absent)
        missing.first += [path for path, _ in absent[: SHOWN - len(missing.first)]]
    missing.owners = +missing.owners
    return missing


def _absent(source_url: str, files: list[dict[str, str | int]]) -> Iterator[tuple[str, int]]:
    folder = Path(unquote(urlsplit(source_url).path))
    for file in files:
        entry = FileEntry(str(file["path"]), int(file["size"]), str(file["sha256"]))
        path = folder / stored_path(source_url, entry)
        if not path.is_file() or path.stat().st_size != entry.size:
            yield str(path), entry.size
