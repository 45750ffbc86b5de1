"""Host memory in which a save waits to be written: one buffer a file, laid out as the file is.

The buffers are made once and used again while the state has the same blocks. Beside a GPU they are pinned.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from trainmaster.checkpoints.blocks import Tensors, dtype_of, local_part
from trainmaster.checkpoints.layout import Block, FileLayout

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class _Copy:
    """From a box of a block of the state to its place in a buffer."""

    source: Block
    start: tuple[int, ...]  # within the source
    target: torch.Tensor


class Staging:
    """`sources`: the block of the state that each block of a file was cut from."""

    def __init__(self, files: Sequence[FileLayout], sources: Mapping[Block, Block], pinned: bool) -> None:
        import torch

        self.files = tuple(files)
        self._buffers = [
            torch.empty(file.size, dtype=torch.uint8, pin_memory=pinned and file.size > 0) for file in files
        ]
        self._copies: list[_Copy] = []
        for file, buffer in zip(files, self._buffers, strict=True):
            buffer[: len(file.header)] = torch.frombuffer(bytearray(file.header), dtype=torch.uint8)
            for placed in file.placed:
                block = placed.block
                bytes_ = buffer[placed.start : placed.start + block.bytes]
                target = bytes_.view(dtype_of(block.dtype)).view(block.sizes)
                source = sources[block]
                start = tuple(a - b for a, b in zip(block.offsets, source.offsets, strict=True))
                self._copies.append(_Copy(source, start, target))

    def fill(self, tensors: Tensors) -> list[Any]:
        """Copies the state; from a GPU only begins to: the buffers are full once the returned events have passed.

        Work that is queued on the GPU later, such as the next optimizer step, waits for these copies by itself.
        """
        import torch

        devices = set()
        for copy in self._copies:
            source = local_part(tensors, copy.source)
            for dimension, (start, size) in enumerate(zip(copy.start, copy.target.shape, strict=True)):
                if source.shape[dimension] != size:
                    source = source.narrow(dimension, start, size)
            copy.target.copy_(source, non_blocking=source.is_cuda)
            if source.is_cuda:
                devices.add(source.device)
        events = []
        for device in devices:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record(torch.cuda.current_stream(device))
            events.append(event)
        return events

    def contents(self) -> list[tuple[FileLayout, memoryview]]:
        return [(file, _bytes_of(buffer)) for file, buffer in zip(self.files, self._buffers, strict=True)]


def _bytes_of(buffer: torch.Tensor) -> memoryview:
    """Without numpy, which a training need not have."""
    array = (ctypes.c_char * buffer.numel()).from_address(buffer.data_ptr())
    return memoryview(array).cast("B")
