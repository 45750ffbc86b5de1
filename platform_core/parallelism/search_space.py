"""All layouts that a model and a cluster allow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from platform_core.jobs.transformer import Recompute
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.layout import Layout, refusals
from platform_core.parallelism.model_shape import ModelShape


@dataclass(frozen=True, slots=True)
class Limits:
    """What of the space is looked at."""

    most_tensor: int = 0  # 0: an NVLink island
    most_pipeline: int = 128
    most_context: int = 64
    micro_batches: tuple[int, ...] = (1, 2, 4, 8, 16)
    virtual: tuple[int, ...] = (1, 2, 3, 4, 6, 8)
    shortest_context: int = 4096  # tokens of a sequence that one context rank keeps at least
    offload: bool = False


@dataclass(frozen=True, slots=True)
class Degrees:
    """How many ranks each dimension has."""

    data: int
    tensor: int
    context: int
    pipeline: int


def layouts(shape: ModelShape, cluster: Cluster, global_batch: int, limits: Limits) -> Iterator[Layout]:
    """Those that use all GPUs and that nothing but memory forbids."""
    for degrees in _degrees(shape, cluster, global_batch, limits):
        for layout in _variants(shape, cluster, degrees, limits):
            if not refusals(shape, layout, cluster, global_batch):
                yield layout


def _degrees(shape: ModelShape, cluster: Cluster, global_batch: int, limits: Limits) -> Iterator[Degrees]:
    gpus = cluster.gpus
    for tensor in _divisors(gpus, limits.most_tensor or cluster.joined):
        if shape.heads % tensor:
            continue
        for pipeline in _divisors(gpus // tensor, min(limits.most_pipeline, shape.layers)):
            rest = gpus // tensor // pipeline
            for context in _divisors(rest, limits.most_context):
                data = rest // context
                long_enough = context == 1 or shape.sequence // context >= limits.shortest_context
                if long_enough and global_batch % data == 0:
                    yield Degrees(data, tensor, context, pipeline)


# Recompute by operator lies between them in time and memory; whoever has it states it in the job file.
_RECOMPUTE = (Recompute.NONE, Recompute.SELECTIVE, Recompute.FULL)


def _variants(shape: ModelShape, cluster: Cluster, degrees: Degrees, limits: Limits) -> Iterator[Layout]:
    for micro, virtual, expert, (zero, shard), sequence_parallel, recompute in product(
        limits.micro_batches,
        limits.virtual if degrees.pipeline > 1 else (1,),
        _expert_degrees(shape, degrees),
        _sharding(cluster, degrees),
        (False, True) if degrees.tensor > 1 else (False,),
        _RECOMPUTE,
    ):
        yield Layout(
            data=degrees.data,
            tensor=degrees.tensor,
            context=degrees.context,
            pipeline=degrees.pipeline,
            virtual=virtual,
            expert=expert,
            micro_batch=micro,
            zero=zero,
            shard=shard,
            sequence_parallel=sequence_parallel,
            recompute=recompute,
            offload=limits.offload,
        )


def _sharding(cluster: Cluster, degrees: Degrees) -> list[tuple[int, int]]:
    """Stages of ZeRO, and for stage 3 also shards within a node (HSDP). Pipelines keep whole weights and
    gradients: gathering them again for each micro-batch would take longer than the micro-batch."""
    if degrees.data * degrees.context == 1:
        return [(0, 0)]
    stages = [(0, 0), (1, 0)]
    if degrees.pipeline > 1:
        return stages
    stages += [(2, 0), (3, 0)]
    within = cluster.gpus_per_node // (degrees.tensor * degrees.context)
    if 1 < within < degrees.data and degrees.data % within == 0:
        stages.append((3, within))
    return stages


def _expert_degrees(shape: ModelShape, degrees: Degrees) -> list[int]:
    if not shape.experts:
        return [1]
    return [count for count in _divisors(degrees.data, shape.experts) if shape.experts % count == 0]


def _divisors(number: int, most: int) -> list[int]:
    return [count for count in range(1, min(number, most) + 1) if number % count == 0]
