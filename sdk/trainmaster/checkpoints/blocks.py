"""Blocks of a state by torch.distributed.checkpoint's planner: what a rank has of each tensor, and what it needs of it.

DTensor (FSDP2, tensor parallel), ShardedTensor (FSDP1) and plain tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from trainmaster.checkpoints.layout import Block, Index

if TYPE_CHECKING:
    import torch
    from torch.distributed.checkpoint.planner import ReadItem

Tensors = dict[str, "torch.Tensor"]


def signature(tensors: Tensors) -> tuple[Any, ...]:
    """Equal while the state has the same blocks. Cheap: every save asks."""
    return tuple(
        (
            name,
            tensor.shape,
            tensor.dtype,
            getattr(tensor, "placements", ()),
            getattr(tensor, "device_mesh", 0),
        )
        for name, tensor in tensors.items()
    )


def blocks_of(tensors: Tensors) -> list[Block]:
    """What this process has of each tensor."""
    from torch.distributed.checkpoint.default_planner import create_default_local_save_plan

    items = create_default_local_save_plan(tensors, is_coordinator=False).items
    blocks = []
    for item in items:
        data = item.tensor_data
        assert data is not None  # only tensors are planned
        dtype = data.properties.dtype
        offsets, sizes = tuple(data.chunk.offsets), tuple(data.chunk.sizes)
        name = dtype_name(dtype)
        blocks.append(Block(item.index.fqn, offsets, sizes, tuple(data.size), name, dtype.itemsize))
    return blocks


def local_part(tensors: Tensors, parent: Block) -> torch.Tensor:
    """The memory of a block that `blocks_of` returned."""
    return at_offsets(tensors, parent.name, parent.offsets)


def at_offsets(tensors: Tensors, name: str, offsets: Sequence[int]) -> torch.Tensor:
    """The memory of the block that this process has at these offsets of a tensor."""
    from torch.distributed.checkpoint.metadata import MetadataIndex
    from torch.distributed.checkpoint.utils import find_state_dict_object

    found: torch.Tensor = find_state_dict_object(tensors, MetadataIndex(name, offsets))
    return found


def reads(tensors: Tensors, index: Index) -> list[ReadItem]:
    """What to copy from which stored block to which block of this process, whatever the layouts are.

    ValueError names the tensor that the checkpoint lacks, or that has another size.
    """
    import torch
    from torch.distributed.checkpoint import metadata as planned
    from torch.distributed.checkpoint.default_planner import create_default_local_load_plan

    missing = sorted(name for name in tensors if name not in index.tensors)
    if missing:
        raise ValueError(f"the checkpoint has no {', '.join(missing[:5])}{' …' if len(missing) > 5 else ''}")
    wanted = {name: index.tensors[name] for name in tensors}
    metadata = {
        name: planned.TensorStorageMetadata(
            planned.TensorProperties(dtype_of(stored.dtype)),
            torch.Size(stored.shape),
            [
                planned.ChunkStorageMetadata(torch.Size(block.offsets), torch.Size(block.sizes))
                for block in stored.blocks
            ],
        )
        for name, stored in wanted.items()
    }
    for name, tensor in tensors.items():
        if tuple(tensor.size()) != wanted[name].shape:
            raise ValueError(
                f"{name} has the size {list(tensor.size())}; the checkpoint has {list(wanted[name].shape)}"
            )
    return create_default_local_load_plan(tensors, planned.Metadata(dict(metadata))).items


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    import torch

    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"this torch {torch.__version__} has no type {name}")
    return dtype
