"""`FromPeer` on the wire without copying the bytes of pieces through protobuf objects. The format is protobuf's."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from trainmaster_wire.agent.v1 import chunk_transfer_pb2 as wire

PART_BYTES = 1 << 20  # larger messages leave the cache, smaller ones cost a call each
_PART = 0x0A  # field 1 of FromPeer, length-delimited
_PIECE, _OFFSET, _DATA = 0x08, 0x10, 0x1A  # fields 1 and 2 of Part as numbers, field 3 length-delimited


@dataclass(frozen=True, slots=True)
class Part:
    piece: int
    offset: int  # within the piece
    data: memoryview


Message: TypeAlias = "Part | wire.FromPeer"


def part_message(piece: int, offset: int, size: int, read_into: Callable[[memoryview], None]) -> bytes:
    """A message whose bytes are read straight to their place in it."""
    head = _head(piece, offset, size)
    buffer = io.BytesIO(head)
    if size:
        buffer.seek(len(head) + size - 1)
        buffer.write(b"\0")
        with buffer.getbuffer() as view:
            read_into(view[len(head) :])
    return buffer.getvalue()


def passed_on(piece: int, offset: int, data: memoryview) -> bytes:
    """A message with these bytes: the very one that brought them, where it did."""
    head = _head(piece, offset, len(data))
    came = data.obj
    if isinstance(came, bytes) and len(came) == len(head) + len(data) and came.startswith(head):
        return came
    return b"".join((head, data))


def encode(message: bytes | wire.FromPeer) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()


def decode(raw: bytes) -> Message:
    """Another order of fields, or fields that we do not know, are left to protobuf."""
    if not raw or raw[0] != _PART:
        return wire.FromPeer.FromString(raw)
    size, at = _read_varint(raw, 1)
    piece = offset = 0
    if size and at + size == len(raw):
        if raw[at] == _PIECE:
            piece, at = _read_varint(raw, at + 1)
        if raw[at : at + 1] == bytes([_OFFSET]):
            offset, at = _read_varint(raw, at + 1)
        if raw[at : at + 1] == bytes([_DATA]):
            size, at = _read_varint(raw, at + 1)
            if size and at + size == len(raw):
                return Part(piece, offset, memoryview(raw)[at:])
    part = wire.FromPeer.FromString(raw).part
    return Part(part.piece, part.offset, memoryview(part.data))


def _head(piece: int, offset: int, size: int) -> bytes:
    inner = _number(_PIECE, piece) + _number(_OFFSET, offset) + bytes([_DATA]) + _varint(size)
    return bytes([_PART]) + _varint(len(inner) + size) + inner


def _number(tag: int, value: int) -> bytes:
    return bytes([tag]) + _varint(value) if value else b""


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def _read_varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at
