"""The frame of a record in an event file: length, its checksum, data, its checksum (TFRecord)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cache
from typing import Any

LARGEST_RECORD = 64 << 20
_LARGEST_CHECKED = 64 << 10  # the checksum is computed in Python; of an image it would take a second
_HEAD, _CHECKSUM = struct.Struct("<QI"), struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class Records:
    data: tuple[bytes, ...]
    length: int  # bytes of the whole records
    needs: int = 0  # bytes that the next record has, where its head says so
    is_corrupt: bool = False  # what follows is no record, and nothing says where the next one begins


@cache
def _checksum() -> Any:
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    return masked_crc32c


def whole_records(data: bytes) -> Records:
    """The records at the beginning of these bytes. The last may still be half written, so it is left for later; one
    whose data is damaged is left out."""
    records: list[bytes] = []
    position = 0
    while position + _HEAD.size <= len(data):
        length, checksum = _HEAD.unpack_from(data, position)
        if _checksum()(data[position : position + 8]) != checksum or length > LARGEST_RECORD:
            return Records(tuple(records), position, is_corrupt=True)
        begin = position + _HEAD.size
        end = begin + length
        if end + _CHECKSUM.size > len(data):
            return Records(tuple(records), position, needs=end + _CHECKSUM.size - position)
        content = data[begin:end]
        if length > _LARGEST_CHECKED or _checksum()(content) == _CHECKSUM.unpack_from(data, end)[0]:
            records.append(content)
        position = end + _CHECKSUM.size
    return Records(tuple(records), position)


def record(data: bytes) -> bytes:
    head = struct.pack("<Q", len(data))
    return b"".join((head, _CHECKSUM.pack(_checksum()(head)), data, _CHECKSUM.pack(_checksum()(data))))
