"""Bytes that one GPU holds, by part and by pipeline stage.

Model states: Rajbhandari et al. 2020 (ZeRO, arXiv 1910.02054, section 3.1 and figure 1). Activations:
Korthikanti et al. 2022 (arXiv 2205.05198, section 4, table 2 and appendix B).
"""

from __future__ import annotations

from dataclasses import dataclass

from platform_core.jobs.transformer import Precision, Recompute
from platform_core.parallelism.hardware import Cluster
from platform_core.parallelism.layout import Kernels, Layout, Recipe
from platform_core.parallelism.model_shape import ModelShape, first_layers
from platform_core.units import GIB

WEIGHT_BYTES = 2
OPTIMIZER_BYTES = 12  # fp32 copy, momentum, variance (mixed-precision Adam)
CONTEXT_BYTES = 2 * GIB  # CUDA context, NCCL buffers, cuBLAS workspace
FRAGMENTATION = 0.03  # of what is allocated
# Of measured over predicted: nine of ten published figures lie between them. The lower one is a loss in one kernel,
# which keeps a third of the bytes of a logit (torchtitan, benchmarks of June 2025 on H200 beside those of 2024).
LOW, HIGH = 0.75, 1.18


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one rank of one pipeline stage, in bytes."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    head: int  # embedding dropout on the first stage, logits on the last
    working: int  # one layer recomputed, gathered or prefetched
    reserve: int

    @property
    def total(self) -> int:
        parts = (self.weights, self.gradients, self.optimizer, self.activations, self.head, self.working)
        return sum(parts) + self.reserve

    @property
    def low(self) -> int:
        return round(LOW * self.total)

    @property
    def high(self) -> int:
        return round(HIGH * self.total)


def stage_parameters(shape: ModelShape, layout: Layout, stage: int) -> int:
    """Of one rank, before ZeRO: the largest stage takes the odd layers; ends hold the embedding and the
    head."""
    layers, first = layers_of(shape, layout, stage), dense_layers_of(shape, layout, stage)
    whole = layers * shape.replicated_parameters
    dense = (layers - first) * shape.dense_layer_parameters - whole
    if first:
        dense += first * first_layers(shape).dense_layer_parameters
    if stage == 0:
        dense += shape.embedding_parameters
    if stage == layout.pipeline - 1:
        dense += shape.head_parameters
        if layout.pipeline > 1 and shape.tied_embeddings:
            dense += shape.token_parameters  # a copy of the first stage's
    return whole - (-dense // layout.tensor) + expert_parameters(shape, layout, stage)


def expert_parameters(shape: ModelShape, layout: Layout, stage: int) -> int:
    """Of the routed experts of one rank."""
    layers = layers_of(shape, layout, stage) - dense_layers_of(shape, layout, stage)
    return -(-layers * shape.expert_layer_parameters // (layout.tensor * layout.expert))


def dense_layers_of(shape: ModelShape, layout: Layout, stage: int) -> int:
    """Of a mixture's first layers, which have no experts, those on the stage."""
    if not shape.dense_layers:
        return 0
    p, v = layout.pipeline, layout.virtual
    if v == 1:
        begin = sum(layers_of(shape, layout, before) for before in range(stage))
        return max(0, min(shape.dense_layers - begin, layers_of(shape, layout, stage)))
    held = shape.layers // (p * v)
    begins = ((chunk * p + stage) * held for chunk in range(v))
    return sum(max(0, min(shape.dense_layers - begin, held)) for begin in begins)


def heaviest_stage(shape: ModelShape, layout: Layout) -> int:
    """The one with most parameters to reduce and to update: the first, unless dense layers make it light."""
    stages = range(_first_like_the_rest(shape, layout) + 1)
    return max(stages, key=lambda stage: (stage_parameters(shape, layout, stage), -stage))


def _first_like_the_rest(shape: ModelShape, layout: Layout) -> int:
    """The first stage without dense layers, or the last one."""
    stages = range(layout.pipeline)
    return next((at for at in stages if not dense_layers_of(shape, layout, at)), layout.pipeline - 1)


def layers_of(shape: ModelShape, layout: Layout, stage: int) -> int:
    """The first stages take one layer more where they do not divide evenly."""
    base, odd = divmod(shape.layers, layout.pipeline)
    return base + (1 if stage < odd else 0)


def model_states(parameters: int, shards: int, zero: int, gradient_bytes: int) -> tuple[int, int, int]:
    """Weights, gradients and optimizer. 16 bytes of a parameter with fp16 gradients, 18 with fp32 ones."""
    weights = WEIGHT_BYTES * parameters
    gradients = gradient_bytes * parameters
    optimizer = OPTIMIZER_BYTES * parameters
    return (
        -(-weights // shards) if zero == 3 else weights,
        -(-gradients // shards) if zero >= 2 else gradients,
        -(-optimizer // shards) if zero >= 1 else optimizer,
    )


def layer_activations(shape: ModelShape, layout: Layout, recipe: Recipe, recompute: Recompute) -> int:
    """Bytes that one layer keeps of one micro-batch. For a GPT this is s b h (10 + 24/t + 5 a s/(h t)) and its
    relatives, to the digit."""
    tokens = layout.micro_batch * (shape.sequence // layout.context)
    if recompute is Recompute.FULL:
        return 2 * tokens * shape.hidden // (layout.tensor if layout.sequence_parallel else 1)
    if recompute is Recompute.OPERATORS:
        return _by_operator(shape, layout, tokens)
    flash = recipe.flash_attention
    cheap = flash and recompute is Recompute.SELECTIVE  # norms and activations are computed again
    masks = 2 if recipe.dropout else 0
    replicated = ((4 if cheap else 8) + masks) * shape.hidden  # inputs of two norms, and what they give
    # the same of latent vectors, which every tensor rank has whole, and the rotary part of the keys
    replicated += (2 if cheap else 4) * shape.latent_width + 2 * shape.rope_width
    gathered = 2 * (
        shape.query_width + shape.kv_width + shape.output_width
    )  # q, k, v, output of the attention
    # of an MLP the input and the output of the activation; gated also both factors of the product, unless one
    # kernel has it all
    tensors = 2 if not shape.gated else 3 if recipe.kernels is Kernels.COMPILED else 4
    mlp = 2 * shape.active_inner * (shape.matrices - 1 if cheap else tensors)
    moved = 4 * shape.hidden * shape.experts_per_token if shape.experts else 0  # dispatched, to be combined
    core = 4 * shape.heads  # sums of the softmax
    if not flash:
        cells = shape.heads * shape.sequence if recompute is Recompute.NONE else 0
        core = cells * (5 if recipe.dropout else 2)
    split = gathered + mlp + moved + core
    if layout.sequence_parallel:
        split, replicated = split + replicated, 0
    return tokens * replicated + -(-tokens * split // layout.tensor)


def _by_operator(shape: ModelShape, layout: Layout, tokens: int) -> int:
    """The input of the layer and, in the order of its products, the first of every two: queries, values, the first of a
    gated MLP and its output; the output of attention with its sums always (torchtitan, activation_checkpoint.py)."""
    split = shape.query_width + shape.groups * shape.value + shape.output_width + shape.active_inner
    whole = shape.hidden * (2 if shape.gated else 1)
    if layout.sequence_parallel:
        split, whole = split + whole, 0
    return tokens * 2 * whole + -(-tokens * (2 * split + 4 * shape.heads) // layout.tensor)


def in_flight(layout: Layout, stage: int, micro_batches: int) -> tuple[int, int]:
    """Chunks of layers kept at once on a stage, and chunks that a stage has.

    1F1B: p - stage micro-batches. Interleaved: 2 (p - stage - 1) + (v - 1) p + 1 chunks, on the first stage
    the published 1 + (p - 1)/(p v) of the whole model (Korthikanti et al. 2022, section 4.2.3).
    """
    p, v = layout.pipeline, layout.virtual
    kept = p - stage if v == 1 else 2 * (p - stage - 1) + (v - 1) * p + 1
    return min(kept, micro_batches * v), v


def memory(
    shape: ModelShape, layout: Layout, cluster: Cluster, recipe: Recipe, global_batch: int, stage: int = 0
) -> Memory:
    """What the fullest rank of the stage holds at its peak."""
    parameters = stage_parameters(shape, layout, stage)
    weights, gradients, optimizer = _states(shape, layout, recipe, stage, parameters)
    layers = layers_of(shape, layout, stage)
    chunks, chunks_here = in_flight(layout, stage, layout.micro_batches(global_batch))
    first = dense_layers_of(shape, layout, stage)
    kept = (layers - first) * layer_activations(shape, layout, recipe, layout.recompute)
    if first:
        kept += first * layer_activations(first_layers(shape), layout, recipe, layout.recompute)
    activations = -(-kept * chunks // chunks_here)
    working = _working(shape, layout, recipe, parameters // max(1, layers))
    if stage == layout.pipeline - 1:
        working = max(working, _loss(shape, layout, recipe))
    head = _ends(shape, layout, recipe, stage)
    dynamic = weights + gradients + activations + working + head
    reserve = CONTEXT_BYTES + round(FRAGMENTATION * dynamic)
    return Memory(weights, gradients, optimizer, activations, head, working, reserve)


def _states(
    shape: ModelShape, layout: Layout, recipe: Recipe, stage: int, parameters: int
) -> tuple[int, int, int]:
    """Experts are replicated over fewer ranks than the rest, so ZeRO divides them by less."""
    experts = expert_parameters(shape, layout, stage)
    dense = model_states(parameters - experts, layout.shards, layout.zero, recipe.gradient_bytes)
    routed = model_states(experts, layout.expert_shards, layout.zero, recipe.gradient_bytes)
    weights, gradients, optimizer = (one + other for one, other in zip(dense, routed, strict=True))
    return weights, gradients, 0 if layout.offload else optimizer


def _working(shape: ModelShape, layout: Layout, recipe: Recipe, layer_parameters: int) -> int:
    working = 0
    if layout.recompute is not Recompute.NONE:
        whole = layer_activations(shape, layout, recipe, Recompute.NONE)
        working += whole - layer_activations(shape, layout, recipe, layout.recompute)
    # what is gathered in front of attention and MLP, and the sums behind them before they are scattered
    working += 4 * _gathered(shape, layout)
    if layout.zero == 3:
        # one layer in use and the next one gathered, and the gradient of one before it is scattered
        working += (2 * WEIGHT_BYTES + recipe.gradient_bytes) * layer_parameters
    if recipe.precision is Precision.FP8:
        working += layer_parameters  # the weights once more, in eight bits
    return working


def _loss(shape: ModelShape, layout: Layout, recipe: Recipe) -> int:
    """What the loss takes for a moment, when nothing is recomputed or gathered yet but its own input, with its
    gradient."""
    tokens = layout.micro_batch * (shape.sequence // layout.context)
    each = recipe.parallel_loss_bytes if layout.tensor > 1 else recipe.loss_bytes
    return -(-each * tokens * shape.vocabulary // layout.tensor) + 2 * _gathered(shape, layout)


def _gathered(shape: ModelShape, layout: Layout) -> int:
    """Bytes of the hidden states of one micro-batch, where sequence parallelism has divided them before."""
    tokens = layout.micro_batch * (shape.sequence // layout.context)
    return 2 * tokens * shape.hidden if layout.sequence_parallel else 0


def _ends(shape: ModelShape, layout: Layout, recipe: Recipe, stage: int) -> int:
    """Appendix B: the mask of the embedding's dropout for every micro-batch in flight; behind the last layer
    the inputs of norm and product, and logits in fp32: 4 s b h (1 + V/h) / t."""
    tokens = layout.micro_batch * (shape.sequence // layout.context)
    total = 0
    if stage == 0 and recipe.dropout:
        total += tokens * shape.hidden * layout.pipeline // (layout.tensor if layout.sequence_parallel else 1)
    if stage == layout.pipeline - 1:
        total += -(-4 * tokens * (shape.hidden + shape.vocabulary) // layout.tensor)
    return total


def fullest(
    shape: ModelShape, layout: Layout, cluster: Cluster, recipe: Recipe, global_batch: int
) -> tuple[int, Memory]:
    """The stage that needs most, and its memory: the first, the last, the one where the odd layers end, or one up to
    where dense layers end."""
    stages = {0, layout.pipeline - 1, max(0, shape.layers % layout.pipeline - 1)}
    stages |= set(range(1, _first_like_the_rest(shape, layout) + 1))
    held = ((stage, memory(shape, layout, cluster, recipe, global_batch, stage)) for stage in sorted(stages))
    return max(held, key=lambda pair: (pair[1].total, -pair[0]))
