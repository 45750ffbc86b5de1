"""A .torrent file of the model, for the peers that are BitTorrent clients (BEP 3)."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TypeAlias

Bencoded: TypeAlias = "int | bytes | str | dict[str, Bencoded]"


def make(folder: Path, piece: int, announce: str = "") -> Path:
    """FOLDER/model.torrent of FOLDER/store/weights.bin."""
    source = folder / "store" / "weights.bin"
    digests = []
    with source.open("rb") as file:
        while data := file.read(piece):
            digests.append(hashlib.sha1(data, usedforsecurity=False).digest())
    info: Bencoded = {
        "length": source.stat().st_size,
        "name": source.name,
        "piece length": piece,
        "pieces": b"".join(digests),
    }
    torrent: dict[str, Bencoded] = {"announce": announce, "info": info} if announce else {"info": info}
    target = folder / "model.torrent"
    target.write_bytes(bencode(torrent))
    return target


def bencode(value: Bencoded) -> bytes:
    """Keys in the order of their bytes, as the format asks."""
    if isinstance(value, dict):
        return b"d" + b"".join(bencode(key) + bencode(value[key]) for key in sorted(value)) + b"e"
    if isinstance(value, int):
        return b"i%de" % value
    data = value.encode() if isinstance(value, str) else value
    return b"%d:%b" % (len(data), data)
