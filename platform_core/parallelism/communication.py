"""Seconds that the ranks of one layout send to each other, by kind, before any of it is hidden.

Ranks are numbered as Megatron-LM numbers them: tensor, then context, then data, then pipeline (Narayanan et
al. 2021, arXiv 2104.04473, section 3.3): tensor groups lie in one island where they fit, pipeline neighbours
are far apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.parallelism.collectives import Group, all_gather, all_reduce, all_to_all, send
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.layout import Layout, Recipe
from platform_core.parallelism.memory import WEIGHT_BYTES, expert_parameters, heaviest_stage, stage_parameters
from platform_core.parallelism.model_shape import ModelShape


@dataclass(frozen=True, slots=True)
class LayerSeconds:
    """For one layer and micro-batch, forward and backward with what is recomputed."""

    tensor: float
    context: float
    expert: float

    @property
    def total(self) -> float:
        return self.tensor + self.context + self.expert


def layer_seconds(shape: ModelShape, layout: Layout, cluster: Cluster) -> LayerSeconds:
    """Tensor: an all-reduce behind the attention and one behind the MLP, as often backward (Shoeybi et al.
    2019); with sequence parallelism a reduce-scatter and an all-gather in its place, of the same volume, and the
    inputs of both are gathered again backward (Korthikanti et al. 2022, section 4.2.2)."""
    passes = layout.passes
    tokens = layout.micro_batch * (shape.sequence // layout.context)
    hidden = tokens * shape.hidden * WEIGHT_BYTES
    t, c = layout.tensor, layout.context
    tensor = 2 * passes * all_reduce(cluster, Group(t), hidden)
    if layout.sequence_parallel:
        tensor += 2 * all_gather(cluster, Group(t), hidden)
    keys = layout.micro_batch * shape.sequence * (shape.kv_width // min(t, shape.groups)) * WEIGHT_BYTES
    context = passes * all_gather(cluster, Group(c, t), keys)
    expert = 0.0
    if shape.experts:
        routed = hidden * shape.experts_per_token / (t if layout.sequence_parallel else 1)
        expert = 2 * passes * all_to_all(cluster, Group(layout.expert, t * c), routed)
    return LayerSeconds(tensor, context, expert)


def stage_seconds(shape: ModelShape, layout: Layout, cluster: Cluster) -> float:
    """One micro-batch to the next stage. Each tensor rank sends its slice, and the slices are gathered over
    there (Narayanan et al. 2021, section 4.1)."""
    if layout.pipeline == 1:
        return 0.0
    hidden = layout.micro_batch * (shape.sequence // layout.context) * shape.hidden * WEIGHT_BYTES
    stride = layout.tensor * layout.context * layout.data
    sent = send(cluster, Group(layout.pipeline, stride), hidden / layout.tensor)
    if not layout.sequence_parallel:
        sent += all_gather(cluster, Group(layout.tensor), hidden)
    return sent


@dataclass(frozen=True, slots=True)
class DataSeconds:
    """For all the weights of one rank of the heaviest stage: `gather` and `scatter` once, `finish` what follows the
    update."""

    gather: float
    scatter: float
    finish: float


def data_seconds(shape: ModelShape, layout: Layout, cluster: Cluster, recipe: Recipe) -> DataSeconds:
    """Without ZeRO an all-reduce of the gradients; with it a reduce-scatter, and an all-gather of the
    weights."""
    stage = heaviest_stage(shape, layout)
    experts = expert_parameters(shape, layout, stage)
    dense = stage_parameters(shape, layout, stage) - experts
    ranks = layout.data * layout.context
    sent = _data(cluster, layout, recipe, dense, ranks, layout.tensor)
    if not experts:
        return sent
    routed = _data(
        cluster,
        layout,
        recipe,
        experts,
        ranks // layout.expert,
        layout.tensor * layout.context * layout.expert,
    )
    return DataSeconds(
        sent.gather + routed.gather, sent.scatter + routed.scatter, sent.finish + routed.finish
    )


def _data(
    cluster: Cluster, layout: Layout, recipe: Recipe, parameters: int, ranks: int, stride: int
) -> DataSeconds:
    gradients, weights = recipe.reduce_bytes * parameters, WEIGHT_BYTES * parameters
    if layout.zero == 0:
        return DataSeconds(0.0, all_reduce(cluster, Group(ranks, stride), gradients), 0.0)
    shards = max(1, min(ranks, layout.shards))
    shard, replicas = Group(shards, stride), Group(ranks // shards, stride * shards)
    gather = all_gather(cluster, shard, weights)
    scatter = all_gather(cluster, shard, gradients) + all_reduce(cluster, replicas, gradients / shards)
    if layout.zero == 3:
        return DataSeconds(gather, scatter, 0.0)
    return DataSeconds(0.0, scatter, gather)


def tied_embedding(shape: ModelShape, layout: Layout, cluster: Cluster, recipe: Recipe) -> float:
    """The first and the last stage add up the gradients of the embedding that they share."""
    if layout.pipeline == 1 or not shape.tied_embeddings:
        return 0.0
    stride = layout.tensor * layout.context * layout.data * (layout.pipeline - 1)
    count = shape.token_parameters // layout.tensor * recipe.reduce_bytes
    return all_reduce(cluster, Group(2, stride), count)
