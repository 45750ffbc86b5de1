"""Files that versions share in the store: which can go, and whose bytes they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


def unreferenced(
    stored: Iterable[str], living: Iterable[Iterable[str]], under_way: Iterable[Iterable[str]] = ()
) -> frozenset[str]:
    """Digests of stored files that nothing living has and nothing under way needs."""
    used = {digest for digests in (*living, *under_way) for digest in digests}
    return frozenset(stored) - used


def own_bytes(versions: Iterable[Mapping[str, int]]) -> Iterator[int]:
    """Of each version, digest to bytes, those of the files that no earlier one has: together what the store holds."""
    seen: set[str] = set()
    for files in versions:
        yield sum(size for digest, size in files.items() if digest not in seen)
        seen.update(files)
