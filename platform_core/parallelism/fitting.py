"""Whether a layout fits in the memory of its GPUs, and what would make it fit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from platform_core.jobs.transformer import Recompute
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.layout import Layout, Recipe, Refusal
from platform_core.parallelism.memory import Memory, fullest
from platform_core.parallelism.model_shape import ModelShape
from platform_core.units import GIB


@dataclass(frozen=True, slots=True)
class Fit:
    """The memory of the fullest stage; `refusal` where that is more than the GPU has.

    `is_tight`: it is less, and within the band of the prediction it may be more.
    """

    stage: int
    memory: Memory
    refusal: Refusal | None
    is_tight: bool = False


def fit(shape: ModelShape, layout: Layout, cluster: Cluster, recipe: Recipe, global_batch: int) -> Fit:
    stage, held = fullest(shape, layout, cluster, recipe, global_batch)
    limit = cluster.gpu.memory_bytes
    if held.total <= limit:
        return Fit(stage, held, None, held.high > limit)
    sentence = f"needs {_gib(held.total)} GiB of {_gib(limit)}"
    for change, other in _remedies(layout):
        needed = fullest(shape, other, cluster, recipe, global_batch)[1].total
        if needed <= limit:
            sentence += f"; {change} {_gib(needed)}"
            break
    return Fit(stage, held, Refusal("memory", held.total, limit, sentence))


def _gib(count: int) -> int:
    return -(-count // GIB)


def _remedies(layout: Layout) -> Iterator[tuple[str, Layout]]:
    """From the cheapest to the dearest in step time."""
    if layout.zero == 0 and layout.data > 1:
        yield "with a sharded optimizer (ZeRO 1)", replace(layout, zero=1)
    if layout.tensor > 1 and not layout.sequence_parallel:
        yield "with sequence parallelism", replace(layout, sequence_parallel=True)
    if layout.recompute is Recompute.NONE:
        yield "with selective recompute", replace(layout, recompute=Recompute.SELECTIVE)
    if layout.recompute is not Recompute.FULL:
        yield "with full recompute", replace(layout, recompute=Recompute.FULL)
    if layout.zero < 3 and layout.data > 1 and layout.pipeline == 1:
        yield "with FSDP (ZeRO 3)", replace(layout, zero=3)
        yield "with FSDP and full recompute", replace(layout, zero=3, recompute=Recompute.FULL)
    if layout.micro_batch > 1:
        yield "with micro-batches of one", replace(layout, micro_batch=1)
    yield "with the optimizer offloaded", replace(layout, offload=True)
    everything = replace(layout, offload=True, micro_batch=1, recompute=Recompute.FULL)
    yield "with offload, full recompute and micro-batches of one", everything
