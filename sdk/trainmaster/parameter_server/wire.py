"""Messages between workers and servers: a header in JSON, then the bytes of tensors as they lie in memory.

Tensors are sent from their storage and received into the storage that they keep: no copy is made on either side.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

import torch

_LENGTH = struct.Struct(">Q")
MAX_HEADER = 64 << 20
MAX_BUFFERS = 64  # of one system call
_TYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int8,
        torch.int32,
        torch.int64,
    )
}

Tensors = Mapping[str, torch.Tensor]


class Disconnected(ConnectionError):
    """The other side is gone."""


def send(connection: socket.socket, fields: Mapping[str, Any], tensors: Tensors | None = None) -> int:
    """Returns the bytes that were sent."""
    dense = {name: tensor.detach().contiguous() for name, tensor in (tensors or {}).items()}
    shapes = {
        name: [str(tensor.dtype).removeprefix("torch."), *tensor.shape] for name, tensor in dense.items()
    }
    header = json.dumps({**fields, "tensors": shapes}).encode()
    buffers = [memoryview(_LENGTH.pack(len(header)) + header)]
    buffers += [_bytes_of(tensor) for tensor in dense.values() if tensor.numel()]
    total = sum(buffer.nbytes for buffer in buffers)
    while buffers:
        sent = connection.sendmsg(buffers[:MAX_BUFFERS])
        while sent and buffers:
            if sent >= buffers[0].nbytes:
                sent -= buffers.pop(0).nbytes
            else:
                buffers[0], sent = buffers[0][sent:], 0
    return total


def receive(connection: socket.socket) -> tuple[dict[str, Any], dict[str, torch.Tensor], int]:
    """Header, tensors, and how many bytes came. Raises Disconnected."""
    (length,) = _LENGTH.unpack(_exactly(connection, bytearray(_LENGTH.size)))
    if length > MAX_HEADER:
        raise Disconnected(f"a header of {length:,} bytes is none of this protocol")
    fields = json.loads(bytes(_exactly(connection, bytearray(length))))
    tensors, total = {}, _LENGTH.size + length
    for name, (dtype, *shape) in fields.pop("tensors").items():
        tensor = torch.empty(shape, dtype=_TYPES[dtype])
        if tensor.numel():
            total += len(_exactly(connection, _bytes_of(tensor)))
        tensors[name] = tensor
    return fields, tensors, total


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    """Its storage, not a copy; tensors of other devices are copied to the host once."""
    return tensor.cpu().reshape(-1).view(torch.uint8).numpy().data


def _exactly(connection: socket.socket, into: bytearray | memoryview) -> bytearray | memoryview:
    view = memoryview(into)
    while view.nbytes:
        count = connection.recv_into(view)
        if count == 0:
            raise Disconnected("the other side has closed the connection")
        view = view[count:]
    return into
