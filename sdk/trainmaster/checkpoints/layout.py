"""Which block of which tensor lies where: the files of a rank, and `tensors.json` for the checkpoint. No torch in here.

Each file is a safetensors file of at most FILE_BYTES, so that anybody can open it: a header of JSON, then the blocks
one after another. A block that is not its whole tensor is called by its offsets: `weight@512,0`. The order depends on
the state's names and shapes alone, so an unchanged file has the same bytes at the next save.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trainmaster.checkpoints.description import CheckpointCorrupt

FILE_BYTES = 256 << 20
INDEX = "tensors.json"
_HEADER_ALIGNMENT = 64
# Names of torch to names of safetensors; other types are written as bytes.
_CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64",
    "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A box of a tensor that one rank has. `offsets` count within the whole tensor, whose size is `shape`."""

    name: str
    offsets: Shape
    sizes: Shape
    shape: Shape
    dtype: str
    item_bytes: int

    @property
    def bytes(self) -> int:
        return math.prod(self.sizes) * self.item_bytes


@dataclass(frozen=True, slots=True)
class Placed:
    """`start` counts from the start of the file."""

    block: Block
    start: int


@dataclass(frozen=True, slots=True)
class FileLayout:
    path: str
    header: bytes
    size: int
    placed: tuple[Placed, ...]


@dataclass(frozen=True, slots=True)
class StoredBlock:
    offsets: Shape
    sizes: Shape
    file: str
    start: int


@dataclass(frozen=True, slots=True)
class StoredTensor:
    dtype: str
    shape: Shape
    blocks: tuple[StoredBlock, ...]


@dataclass(frozen=True, slots=True)
class Index:
    """`structures` are the ranks whose values-files have a part of the state's structure."""

    tensors: Mapping[str, StoredTensor]
    structures: tuple[int, ...]


def values_file(rank: int) -> str:
    return f"values-{rank:05d}.pt"


def split(block: Block, limit: int = FILE_BYTES) -> list[Block]:
    """Blocks of at most `limit` bytes, cut along the first dimensions."""
    if block.bytes <= limit:
        return [block]
    dimension = next((index for index, size in enumerate(block.sizes) if size > 1), None)
    if dimension is None:
        return [block]
    size = block.sizes[dimension]
    rows = max(1, limit // (block.bytes // size))
    pieces = []
    for start in range(0, size, rows):
        offsets, sizes = list(block.offsets), list(block.sizes)
        offsets[dimension] += start
        sizes[dimension] = min(rows, size - start)
        pieces += split(replace(block, offsets=tuple(offsets), sizes=tuple(sizes)), limit)
    return pieces


def share(blocks: Sequence[Sequence[Block]]) -> list[list[Block]]:
    """The blocks of each rank, each written once: those of several ranks by the one that has least to write."""
    owners: dict[tuple[str, Shape], list[int]] = {}
    shapes: dict[str, tuple[Shape, str, int]] = {}
    for rank, own in enumerate(blocks):
        for block in own:
            owners.setdefault((block.name, block.offsets), []).append(rank)
            shape, dtype, first = shapes.setdefault(block.name, (block.shape, block.dtype, rank))
            if (shape, dtype) != (block.shape, block.dtype):
                raise ValueError(
                    f"{block.name} is {dtype} {list(shape)} on rank {first} and {block.dtype} {list(block.shape)} on "
                    f"rank {rank}; give tensors that differ between ranks names of their own"
                )
    load = [
        sum(block.bytes for block in own if len(owners[block.name, block.offsets]) == 1) for own in blocks
    ]
    shares: list[list[Block]] = [[] for _ in blocks]
    for rank, own in enumerate(blocks):
        for block in own:
            candidates = owners[block.name, block.offsets]
            if rank != candidates[0]:
                continue
            writer = min(candidates, key=lambda candidate: load[candidate]) if len(candidates) > 1 else rank
            load[writer] += block.bytes if len(candidates) > 1 else 0
            shares[writer].append(block)
    _refuse_gaps(shares)
    return shares


def _refuse_gaps(shares: Iterable[Iterable[Block]]) -> None:
    elements: dict[str, tuple[int, Block]] = {}
    for block in (block for own in shares for block in own):
        sum_, _ = elements.get(block.name, (0, block))
        elements[block.name] = sum_ + math.prod(block.sizes), block
    for name, (count, block) in elements.items():
        if count != math.prod(block.shape):
            raise ValueError(
                f"the ranks have {count:,} elements of {name}, whose size {list(block.shape)} has "
                f"{math.prod(block.shape):,}: a rank is missing, or two overlap"
            )


def arrange(blocks: Iterable[Block], rank: int, limit: int = FILE_BYTES) -> tuple[FileLayout, ...]:
    """The files of a rank."""
    groups: list[list[Block]] = []
    room = 0
    for block in blocks:
        if not groups or block.bytes > room:
            groups.append([])
            room = limit
        groups[-1].append(block)
        room -= block.bytes
    return tuple(
        _file(f"rank-{rank:05d}-{number:03d}.safetensors", group) for number, group in enumerate(groups)
    )


def _file(path: str, blocks: list[Block]) -> FileLayout:
    # Large elements first, so that each block begins at a multiple of its element without a gap.
    ordered = sorted(blocks, key=lambda block: -block.item_bytes)
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    starts, end = [], 0
    for block in ordered:
        code = _CODES.get(block.dtype)
        entries[_key(block)] = {
            "dtype": code or "U8",
            "shape": list(block.sizes) if code else [block.bytes],
            "data_offsets": [end, end + block.bytes],
        }
        starts.append(end)
        end += block.bytes
    text = json.dumps(entries, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _HEADER_ALIGNMENT)
    header = len(text).to_bytes(8, "little") + text
    placed = tuple(Placed(block, len(header) + start) for block, start in zip(ordered, starts, strict=True))
    return FileLayout(path, header, len(header) + end, placed)


def _key(block: Block) -> str:
    return block.name if block.sizes == block.shape else f"{block.name}@{','.join(map(str, block.offsets))}"


def write_index(layouts: Iterable[Sequence[FileLayout]], structures: Sequence[int]) -> bytes:
    tensors: dict[str, Any] = {}
    for file in (file for own in layouts for file in own):
        for placed in file.placed:
            block = placed.block
            entry = tensors.setdefault(block.name, {"dtype": block.dtype, "shape": block.shape, "blocks": []})
            entry["blocks"].append([block.offsets, block.sizes, file.path, placed.start])
    document = {"tensors": tensors, "structures": list(structures)}
    return json.dumps(document, separators=(",", ":")).encode()


def read_index(data: memoryview, place: object) -> Index:
    try:
        document = json.loads(bytes(data))
        tensors = {
            name: StoredTensor(
                entry["dtype"],
                tuple(entry["shape"]),
                tuple(StoredBlock(tuple(o), tuple(s), file, start) for o, s, file, start in entry["blocks"]),
            )
            for name, entry in document["tensors"].items()
        }
        return Index(tensors, tuple(document["structures"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointCorrupt(f"{place} does not make sense ({error!r})") from error
