"""A manifest taken apart again, so that another one shares its unchanged files."""

from __future__ import annotations

from dataclasses import replace

from platform_core.distribution.content.manifest import Chunk, FilePart, Manifest


def parts_of(manifest: Manifest) -> dict[str, FilePart]:
    """By path. `join` makes the same manifest of all of them."""
    chunks: list[list[Chunk]] = [[] for _ in manifest.files]
    for chunk in manifest.chunks:
        mine = chunks[chunk.file]
        mine.append(replace(chunk, index=len(mine), file=0))
    return {
        entry.path: FilePart(entry, tuple(mine), manifest.piece_size)
        for entry, mine in zip(manifest.files, chunks, strict=True)
    }
