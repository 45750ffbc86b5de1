"""How many bytes the ranks of a job send between its stages and within its data groups: what rank order goes by."""

from __future__ import annotations

from platform_core.cluster.snapshot import RankTraffic
from platform_core.parallelism.job_plan import Training, layout_of, recipe_of, shape_of_job
from platform_core.parallelism.layout import Layout, Recipe
from platform_core.parallelism.memory import WEIGHT_BYTES, expert_parameters, heaviest_stage, stage_parameters
from platform_core.parallelism.model_shape import ModelShape


def rank_traffic(spec: Training) -> RankTraffic | None:
    """Of a job with pipeline stages whose file describes its model; None of others."""
    if spec.parallel.pp == 1:
        return None
    shape, layout = shape_of_job(spec), layout_of(spec, spec.num_gpus)
    if shape is None or layout is None:
        return None
    count = max(1, layout.micro_batches(spec.transformer.global_batch))
    recipe = recipe_of(spec.transformer)
    return RankTraffic(stage_bytes(shape, layout, count), data_bytes(shape, layout, recipe, count))


def stage_bytes(shape: ModelShape, layout: Layout, micro_batches: int) -> int:
    """Activations one way and their gradients the other, of each chunk of layers; a tensor rank sends its slice."""
    if layout.pipeline == 1:
        return 0
    tokens = layout.micro_batch * (shape.sequence // layout.context)
    return 2 * micro_batches * layout.virtual * tokens * shape.hidden * WEIGHT_BYTES // layout.tensor


def data_bytes(shape: ModelShape, layout: Layout, recipe: Recipe, micro_batches: int) -> int:
    """Gradients, and weights where ZeRO shards them, of a rank of the heaviest stage by ring algorithms.

    See `platform_core.parallelism.communication.data_seconds` of the same collectives.
    """
    stage = heaviest_stage(shape, layout)
    experts = expert_parameters(shape, layout, stage)
    dense = stage_parameters(shape, layout, stage) - experts
    ranks = layout.data * layout.context
    sent = _ring(layout, recipe, dense, ranks, micro_batches)
    return round(sent + _ring(layout, recipe, experts, ranks // layout.expert, micro_batches))


def _ring(layout: Layout, recipe: Recipe, parameters: int, ranks: int, micro_batches: int) -> float:
    gradients, weights = recipe.reduce_bytes * parameters, WEIGHT_BYTES * parameters
    shards = max(1, min(ranks, layout.shards))
    replicas = ranks // shards
    reduced = 2 * (replicas - 1) / replicas * gradients / shards
    part = (shards - 1) / shards
    scatter, gather = part * gradients + reduced, part * weights
    if layout.zero < 2:
        return scatter + gather
    return micro_batches * scatter + (2 * micro_batches if layout.zero == 3 else 1) * gather
