"""Which parameter server keeps which tensor."""

from __future__ import annotations

from collections.abc import Mapping


def shards(sizes: Mapping[str, int], servers: int) -> dict[str, int]:
    """The server of each key: the largest first, each to the server that has least. All sides compute it alike."""
    if servers < 1:
        raise ValueError(f"{servers} servers; at least one keeps the parameters")
    held = [0] * servers
    place = {}
    for key in sorted(sizes, key=lambda name: (-sizes[name], name)):
        server = held.index(min(held))
        place[key] = server
        held[server] += sizes[key]
    return place
