"""From verified bytes to tensors: whole ones, or the blocks that this process has of the tensors of its state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainmaster.checkpoints import blocks, layout, tree

if TYPE_CHECKING:
    import torch

_Copy = tuple["torch.Tensor", layout.StoredBlock, tuple[int, ...], tuple[int, ...]]
_MISSING = object()


class Blocks:
    """Takes files one after another, in memory of its own; `fill` copies into the tensors of `into`.

    Without `into` its memory is the state.
    """

    def __init__(self, structures: list[Any], index: layout.Index, into: Mapping[str, Any] | None) -> None:
        self._structure, self._index, self._into = tree.merge(structures), index, into
        self._host: dict[Any, torch.Tensor] = {}
        self._copies: dict[str, list[_Copy]] = {}
        self._live: dict[str, torch.Tensor] = {}
        if into is None:
            self._want_whole()
        else:
            self._live = tree.take_apart(into).tensors
            self._want_blocks()

    @property
    def files(self) -> list[str]:
        return sorted(self._copies)

    def _want_whole(self) -> None:
        import torch

        for name, stored in self._index.tensors.items():
            whole = self._host[name] = torch.empty(stored.shape, dtype=blocks.dtype_of(stored.dtype))
            for block in stored.blocks:
                self._want(
                    _box(whole, block.offsets, block.sizes), block, (0,) * len(block.sizes), block.sizes
                )

    def _want_blocks(self) -> None:
        import torch

        stored = {
            (name, block.offsets): block
            for name, tensor in self._index.tensors.items()
            for block in tensor.blocks
        }
        for item in blocks.reads(self._live, self._index):
            to = item.dest_index
            if to not in self._host:
                like = blocks.at_offsets(self._live, to.fqn, to.offset or ())
                dtype = blocks.dtype_of(self._index.tensors[to.fqn].dtype)
                self._host[to] = torch.empty(like.shape, dtype=dtype)
            lengths = tuple(item.lengths)
            target = _box(self._host[to], tuple(item.dest_offsets), lengths)
            source = stored[item.storage_index.fqn, tuple(item.storage_index.offset or ())]
            self._want(target, source, tuple(item.storage_offsets), lengths)

    def _want(
        self,
        target: torch.Tensor,
        block: layout.StoredBlock,
        offsets: tuple[int, ...],
        sizes: tuple[int, ...],
    ) -> None:
        if math.prod(sizes):
            self._copies.setdefault(block.file, []).append((target, block, offsets, sizes))

    def take(self, path: str, data: memoryview) -> None:
        import torch

        file = torch.frombuffer(data, dtype=torch.uint8)
        for target, block, offsets, sizes in self._copies[path]:
            count = math.prod(block.sizes) * target.element_size()
            stored = file[block.start : block.start + count].view(target.dtype).view(block.sizes)
            target.copy_(_box(stored, offsets, sizes))

    def fill(self) -> None:
        for to, host in self._host.items() if self._into is not None else ():
            blocks.at_offsets(self._live, to.fqn, to.offset or ()).copy_(host)

    def state(self) -> dict[str, Any]:
        if self._into is None:
            return tree.put_together(self._structure, self._host.__getitem__)  # type: ignore[no-any-return]
        saved = tree.put_together(self._structure, lambda name: _MISSING)
        return _with_saved(self._into, saved)  # type: ignore[no-any-return]


class WholeTensors:
    """A state of format 1, for the tensors of `into`."""

    def __init__(self, state: Mapping[str, Any], into: Mapping[str, Any]) -> None:
        self._state, self._into = state, into
        self._live = tree.take_apart(into).tensors
        self._whole = tree.take_apart(state).tensors
        for name, tensor in self._live.items():
            if name not in self._whole:
                raise ValueError(f"the checkpoint has no {name}")
            if self._whole[name].shape != tensor.shape:
                has = list(self._whole[name].shape)
                raise ValueError(f"{name} has the size {list(tensor.shape)}; the checkpoint has {has}")

    def fill(self) -> None:
        for block in blocks.blocks_of(self._live):
            blocks.local_part(self._live, block).copy_(
                _box(self._whole[block.name], block.offsets, block.sizes)
            )

    def state(self) -> dict[str, Any]:
        return _with_saved(self._into, self._state)  # type: ignore[no-any-return]


def _box(tensor: torch.Tensor, offsets: tuple[int, ...], sizes: tuple[int, ...]) -> torch.Tensor:
    for dimension, (offset, size) in enumerate(zip(offsets, sizes, strict=True)):
        tensor = tensor.narrow(dimension, offset, size)
    return tensor


def _with_saved(own: Any, saved: Any) -> Any:
    """The own tensors, which are filled, and the saved values; saved values that the script did not name too."""
    import torch

    if isinstance(own, torch.Tensor) or saved is _MISSING:
        return own
    if isinstance(own, Mapping) and isinstance(saved, Mapping):
        own_pairs = {key: _with_saved(value, saved.get(key, _MISSING)) for key, value in own.items()}
        more = {key: value for key, value in saved.items() if key not in own and not _has_missing(value)}
        return {**own_pairs, **more}
    if isinstance(own, list | tuple) and isinstance(saved, list | tuple) and len(own) == len(saved):
        return type(own)(_with_saved(a, b) for a, b in zip(own, saved, strict=True))
    return saved


def _has_missing(value: Any) -> bool:
    import torch

    if isinstance(value, Mapping):
        return any(map(_has_missing, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_has_missing, value))
    return value is _MISSING or isinstance(value, torch.Tensor)
